package files_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/files"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// eicar is what every scanner finds, put together here so that none finds this file.
var eicar = `X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-` + `STANDARD-ANTIVIRUS-TEST-FILE!$H+H*`

// clamd speaks clamd's protocol: zINSTREAM, chunks after their lengths, a reply that ends with NUL.
type clamd struct {
	tb       testing.TB
	network  string
	address  string
	maxBytes int

	mu       sync.Mutex
	listener net.Listener
	scans    int // guarded by mu
	done     sync.WaitGroup
}

func newClamd(tb testing.TB, network string) *clamd {
	tb.Helper()
	c := &clamd{tb: tb, network: network, address: "127.0.0.1:0", maxBytes: 1 << 20}
	if network == "unix" {
		c.address = filepath.Join(tb.TempDir(), "clamd.sock")
	}
	c.start()
	tb.Cleanup(c.stop)
	return c
}

// scannerOf is a Clamd for the address.
func (c *clamd) scanner() files.Clamd {
	if c.network == "unix" {
		return files.Clamd{Address: "unix:" + c.address}
	}
	return files.Clamd{Address: c.address}
}

func (c *clamd) start() {
	c.tb.Helper()
	listener, err := net.Listen(c.network, c.address)
	require.NoError(c.tb, err)
	c.mu.Lock()
	c.listener = listener
	c.mu.Unlock()
	c.address = listener.Addr().String()
	c.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.done.Go(func() { c.serve(conn) })
		}
	})
}

func (c *clamd) stop() {
	c.mu.Lock()
	_ = c.listener.Close()
	c.mu.Unlock()
	c.done.Wait()
}

func (c *clamd) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scans
}

func (c *clamd) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	command := make([]byte, len("zINSTREAM\x00"))
	if _, err := io.ReadFull(conn, command); err != nil || string(command) != "zINSTREAM\x00" {
		_, _ = io.WriteString(conn, "UNKNOWN COMMAND\x00")
		return
	}
	var content bytes.Buffer
	for {
		var size uint32
		if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
			return
		}
		if size == 0 {
			break
		}
		if content.Len()+int(size) > c.maxBytes {
			_, _ = io.WriteString(conn, "INSTREAM size limit exceeded. ERROR\x00")
			return
		}
		if _, err := io.CopyN(&content, conn, int64(size)); err != nil {
			return
		}
	}
	c.mu.Lock()
	c.scans++
	c.mu.Unlock()
	if strings.Contains(content.String(), eicar) {
		_, _ = io.WriteString(conn, "stream: Win.Test.EICAR_HDB-1 FOUND\x00")
		return
	}
	_, _ = io.WriteString(conn, "stream: OK\x00")
}

// each runs body on both engines, with a scanner or nil.
func each(t *testing.T, scanner func(t *testing.T) files.Scanner, body func(w *team.Team)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		var found files.Scanner
		if scanner != nil {
			found = scanner(t)
		}
		body(team.New(t, db, func(o *files.Options) { o.Scanner = found }))
	})
}

// worker runs a worker until stop, or until the test ends.
func worker(w *team.Team) (stop func()) {
	w.Helper()
	work := files.NewWorker(w.Files)
	require.NoError(w, work.Start(w.Context()))
	once := sync.OnceFunc(func() { require.NoError(w, work.Stop(context.Background())) })
	w.Cleanup(once)
	return once
}

func announce(w *team.Team, by authz.Caller, size int) wire.File {
	w.Helper()
	file, err := w.Files.Create(w.Context(), by, wire.NewFile{OriginalName: "report.pdf", MimeType: "application/pdf", SizeBytes: int64(size)})
	require.NoError(w, err)
	return file
}

func upload(w *team.Team, by authz.Caller, content string) wire.File {
	w.Helper()
	file, err := w.Files.Upload(w.Context(), by, announce(w, by, len(content)).ID, strings.NewReader(content))
	require.NoError(w, err)
	return file
}

func get(w *team.Team, by authz.Caller, id string) wire.File {
	w.Helper()
	file, err := w.Files.Get(w.Context(), by, id)
	require.NoError(w, err)
	return file
}

// readsAll reads a file, whose content is known, from any goroutine.
func readsAll(w *team.Team, by authz.Caller, id, want string) error {
	content, err := w.Files.Open(w.Context(), by, id)
	if err != nil {
		return err
	}
	defer content.Close()
	all, err := io.ReadAll(content)
	if err == nil && string(all) != want {
		err = fmt.Errorf("half of it: %q", all)
	}
	return err
}

// bytesOf reads a file as somebody.
func bytesOf(w *team.Team, by authz.Caller, id string) (string, error) {
	content, err := w.Files.Open(w.Context(), by, id)
	if err != nil {
		return "", err
	}
	defer content.Close()
	all, err := io.ReadAll(content)
	require.NoError(w, err)
	return string(all), nil
}

func eventually(w *team.Team, condition func() bool, what string) {
	w.Helper()
	require.Eventually(w, condition, patience, time.Millisecond, what)
}
