// Package network is what stands between a device of a demonstration and the server: a connection that can be
// cut, or be so slow that nothing arrives.
//
// A Line is safe for concurrent use and owns no goroutine.
package network

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

var errNoLine = errors.New("no connection to the network")

// What the system keeps for a device that may become slow, in bytes, and for one that is quick again: through the small
// buffer what waits would take minutes.
const (
	slowBuffer  = 64 << 10
	quickBuffer = 1 << 20
)

// Line is a device's connection to the network, which can be cut: what is open breaks off, and for a while nothing
// can be opened.
type Line struct {
	env *env.Env

	mu    sync.Mutex // guards what follows
	open  map[*lineConn]struct{}
	until time.Time     // before it nothing can be opened
	thaw  chan struct{} // closed when a frozen line flows again; nil while it flows
	slow  bool          // connections get small buffers
}

// New makes a line that works.
func New(e *env.Env) *Line { return &Line{env: e, open: map[*lineConn]struct{}{}} }

// NewSlow makes a line that works, and holds little when it is frozen.
func NewSlow(e *env.Env) *Line {
	l := New(e)
	l.slow = true
	return l
}

// Client answers a client whose requests go over the line.
func (l *Line) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 4}}
}

func (l *Line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.down() {
		return nil, errNoLine
	}
	var dialer net.Dialer
	opened, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // net says what and where
	}
	if tcp, ok := opened.(*net.TCPConn); ok && l.slow {
		_ = tcp.SetReadBuffer(slowBuffer) // with a larger one it takes longer
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	made := &lineConn{Conn: opened, line: l}
	l.open[made] = struct{}{}
	return made, nil
}

func (l *Line) down() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.env.Now().Before(l.until)
}

// Cut breaks everything off, without a good-bye, for a while.
func (l *Line) Cut(outage time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = l.env.Now().Add(outage)
	for opened := range l.open {
		if tcp, ok := opened.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as from a network that is gone
		}
		_ = opened.Conn.Close()
	}
	clear(l.open)
}

// Repair ends an outage at once.
func (l *Line) Repair() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
}

// Freeze lets nothing arrive any more, without breaking anything off, until Thaw.
func (l *Line) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw == nil {
		l.thaw = make(chan struct{})
	}
}

// Thaw lets everything arrive again.
func (l *Line) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thaw == nil {
		return
	}
	close(l.thaw)
	l.thaw = nil
	for opened := range l.open {
		if tcp, ok := opened.Conn.(*net.TCPConn); ok && l.slow {
			_ = tcp.SetReadBuffer(quickBuffer) // with the small one it takes longer
		}
	}
}

// flowing answers nil, or what is closed when the line flows again.
func (l *Line) flowing() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.thaw
}

// lineConn is a connection that its line knows.
type lineConn struct {
	net.Conn

	line *Line
}

// Read reads, but not while the line is frozen.
func (c *lineConn) Read(into []byte) (int, error) {
	if frozen := c.line.flowing(); frozen != nil {
		<-frozen
	}
	return c.Conn.Read(into) //nolint:wrapcheck // it stands in for it
}

// Close closes the connection.
func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.open, c)
	c.line.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // it stands in for it
}
