package attach

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cairnsync/cairn/internal/testkit"
)

// terminal opens a pseudo-terminal: what a person has in hand, and what a program is given.
func terminal(t *testing.T, columns, rows uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	resize(t, person, columns, rows)
	return person, program
}

func resize(t *testing.T, person *os.File, columns, rows uint16) {
	t.Helper()
	require.NoError(t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

func TestATerminal(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	person, program := terminal(t, 80, 24)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	require.NoError(t, err)
	var (
		mu     sync.Mutex
		output bytes.Buffer
		reads  sync.WaitGroup
	)
	reads.Go(func() {
		buffer := make([]byte, 4096)
		for {
			count, err := person.Read(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			output.Write(buffer[:count])
			mu.Unlock()
		}
	})
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), func(o *Options) { o.In, o.Out, o.Color, o.size = program, program, true, nil })
	w.shows("Fix the build", "● live")
	_, err = io.WriteString(person, "hello")
	require.NoError(t, err)
	w.shows("hello")
	resize(t, person, 40, 10)
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGWINCH))
	require.Eventually(t, func() bool { return strings.Count(w.look(), "\n") == 9 }, patience, 2*time.Millisecond)
	_, err = io.WriteString(person, "\x03\x03")
	require.NoError(t, err)
	require.NoError(t, w.leaves())
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after, "the terminal is given back as it was")
	require.NoError(t, program.Close())
	reads.Wait()
	_ = person.Close()
	mu.Lock()
	defer mu.Unlock()
	for _, mode := range []string{"1049", "1004", "2004"} { // the alternate screen, focus, pastes
		require.Contains(t, output.String(), "\x1b[?"+mode+"h")
		require.Greater(t, strings.LastIndex(output.String(), "\x1b[?"+mode+"l"), strings.LastIndex(output.String(), "\x1b[?"+mode+"h"))
	}
}
