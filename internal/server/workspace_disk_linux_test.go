package server_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/crash"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// The files of the server may grow no further: its process gets errors from the system for every write beyond that,
// as from a full disk.
func TestWorkspaceDiskFull(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.SQLite)
	desk := servertest.Start(t, db, nil)
	c := newCompany(t, desk)
	desk.Stop(t)
	node := crash.Start(t, db.URL, "limits.enabled=false")
	for _, p := range c.peers {
		p.proxy.Point(node.URL())
		p.proxy.Reset()
	}
	writer, reader := c.peers[0], c.peers[1]
	for _, p := range []*peer{writer, reader} {
		p.run()
		require.NoError(t, p.Settle(t.Context()))
		p.OpenThread(c.threads[0])
		require.NoError(t, p.Settle(t.Context()))
	}
	large := func(i int) wirews.NewMessage {
		return wirews.NewMessage{ClientMsgID: workspace.NewID(), ContentMD: fmt.Sprint(i, " ", strings.Repeat("words ", 3000))}
	}
	for i := range 3 {
		in := large(i)
		_, err := writer.Client().SendMessage(t.Context(), c.threads[0], in)
		require.NoError(t, err)
		writer.keep(&writer.acked, in.ClientMsgID)
	}
	limitFiles(t, node.PID(), sizeOf(t, strings.TrimPrefix(db.URL, "sqlite:"))+1<<20)
	var refused []wirews.NewMessage
	t.Run("ES-1 on a full disk a message is refused, and not acknowledged", func(t *testing.T) {
		for i := 0; len(refused) < 3; i++ {
			require.Less(t, i, 2000, "the disk is never full")
			in := large(i)
			_, err := writer.Client().SendMessage(t.Context(), c.threads[0], in)
			if err == nil {
				writer.keep(&writer.acked, in.ClientMsgID)
				continue
			}
			problem, is := errors.AsType[*workspace.Problem](err)
			require.True(t, is, "%v", err)
			require.GreaterOrEqual(t, problem.Status, 500)
			refused = append(refused, in)
		}
		_, err := reader.Client().Snapshot(t.Context())
		require.NoError(t, err, "who reads is not disturbed")
	})
	t.Run("ES-1 with room again it goes on, nothing acknowledged is lost", func(t *testing.T) {
		limitFiles(t, node.PID(), unix.RLIM_INFINITY)
		for _, in := range refused {
			require.Eventually(t, func() bool {
				_, err := writer.Client().SendMessage(t.Context(), c.threads[0], in)
				return err == nil
			}, patience, 50*time.Millisecond)
			writer.keep(&writer.acked, in.ClientMsgID)
		}
		writer.agreed(c.threads)
		reader.agreed(c.threads)
	})
	t.Run("ES-1 a crash afterwards finds everything too", func(*testing.T) {
		node.Kill()
		node.Restart()
		for _, p := range []*peer{writer, reader} {
			p.proxy.Point(node.URL())
			p.agreed(c.threads)
		}
	})
}

// limitFiles bounds how large files of a process may become, in bytes.
func limitFiles(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	var was unix.Rlimit
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &was))
	require.NoError(t, unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: was.Max}, nil))
}

// sizeOf answers the size of the larger of a database and its log.
func sizeOf(t *testing.T, path string) uint64 {
	t.Helper()
	file, err := os.Stat(path)
	require.NoError(t, err)
	size := file.Size()
	if log, err := os.Stat(path + "-wal"); err == nil {
		size = max(size, log.Size())
	}
	return uint64(size) //nolint:gosec // no file has a negative size
}
