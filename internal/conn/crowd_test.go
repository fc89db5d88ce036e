package conn

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
)

// crowdVariable makes the test binary a crowd of clients: "address count path talk".
const crowdVariable = "CAIRN_CONN_CROWD"

// crowd connects clients that throw away what they get, says when all are connected, and ends with
// its standard input.
func crowd(order string) {
	var address, path, talk string
	var count int
	if _, err := fmt.Sscan(order, &address, &count, &path, &talk); err != nil {
		panic(err)
	}
	request := strings.Replace(handshakeRequest, "/ws", path, 1)
	var ready sync.WaitGroup
	for range count {
		ready.Add(1)
		go func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(c, request)
			in := bufio.NewReader(c)
			for line := "x"; strings.TrimSpace(line) != ""; {
				line, _ = in.ReadString('\n')
			}
			if talk == "true" {
				_, _ = c.Write(masked(ws.OpText, true, `{"t":"presence","driving":true}`))
				_, _ = ws.ReadFrame(in)
			}
			ready.Done()
			_, _ = io.Copy(io.Discard, c)
		}()
	}
	ready.Wait()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// gather starts a crowd and waits until it is connected.
func gather(b *testing.B, address string, count int, path string, talk bool) {
	b.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crowdVariable+"="+fmt.Sprint(address, " ", count, " ", path, " ", talk))
	input, err := command.StdinPipe()
	require.NoError(b, err)
	output, err := command.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, command.Start())
	b.Cleanup(func() {
		_ = input.Close()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(b, err)
	require.Equal(b, "ready\n", line)
}
