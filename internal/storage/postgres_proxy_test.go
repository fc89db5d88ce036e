package storage_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// commitFate is what the proxy does with the next COMMIT it sees.
type commitFate int32

const (
	passCommit commitFate = iota
	// dropCommit cuts the client off and never delivers the COMMIT.
	dropCommit
	// loseAnswer delivers the COMMIT and cuts the client off before it hears the answer.
	loseAnswer
	// delayCommit cuts the client off, and delivers the COMMIT once the client has connected again.
	delayCommit
)

// proxy stands between the lanes and PostgreSQL.
type proxy struct {
	listener net.Listener
	target   string
	fate     atomic.Int32
	again    chan struct{} // gets one value per connection
	group    sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn // guarded by mu
}

// startProxy answers a proxy and the URL of the database through it.
func startProxy(t *testing.T, database string) (*proxy, string) {
	parsed, err := url.Parse(database)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, target: parsed.Host, again: make(chan struct{}, 1000)}
	parsed.Host = listener.Addr().String()
	p.group.Go(p.accept)
	t.Cleanup(p.close)
	return p, parsed.String()
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for _, conn := range p.open {
		conn.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		p.again <- struct{}{}
		p.group.Go(func() { p.toServer(client, server) })
		p.group.Go(func() {
			io.Copy(client, server)
			client.Close()
		})
	}
}

// cancelRequest is how the driver begins to cancel what a lost connection left running. That would
// make the fate of a commit a matter of chance, so the proxy drops it.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// bindCommit is in the message that runs the prepared statement COMMIT.
func bindCommit() []byte {
	digest := sha256.Sum256([]byte("COMMIT"))
	return []byte("\x00stmtcache_" + hex.EncodeToString(digest[:24]) + "\x00")
}

func (p *proxy) toServer(client, server net.Conn) {
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.HasPrefix(buffer[:n], cancelRequest) {
			client.Close()
			return
		}
		fate := passCommit
		if bytes.Contains(buffer[:n], bindCommit()) {
			fate = commitFate(p.fate.Swap(int32(passCommit)))
		}
		if fate != passCommit {
			p.meet(fate, client, server, buffer[:n])
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) meet(fate commitFate, client, server net.Conn, message []byte) {
	for len(p.again) > 0 {
		<-p.again
	}
	client.Close()
	switch fate {
	case loseAnswer:
		server.Write(message)
	case delayCommit:
		<-p.again // the lane is back and asks
		server.Write(message)
	}
	if fate != dropCommit { // the server works off what it got before it sees the end
		server.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, server)
	}
}

func TestLostCommitIsSettled(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fate commitFate
		runs int
	}{
		"never delivered":                {dropCommit, 2},
		"answer lost":                    {loseAnswer, 1},
		"delivered after the lane asked": {delayCommit, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, url := startProxy(t, testkit.NewURL(t, testkit.Postgres))
			db := testkit.Open(t, storage.Options{URL: url, Lanes: 1})
			withCounters(t, db, "a")
			require.NoError(t, db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error { return increment(tx, "a") }))
			for round := range 5 {
				runs, effects := 0, 0
				p.fate.Store(int32(c.fate))
				require.NoError(t, db.Write(t.Context(), counterKey("a"), func(tx storage.Tx) error {
					runs++
					tx.AfterCommit(func() { effects++ })
					return increment(tx, "a")
				}))
				require.Zero(t, p.fate.Load(), "the proxy met the commit")
				require.Equal(t, []int{c.runs, 1}, []int{runs, effects})
				require.EqualValues(t, round+2, count(t, db, "a"))
			}
		})
	}
}
