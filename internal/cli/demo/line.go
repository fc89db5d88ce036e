package demo

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

// line is a device's connection to the network, which can be cut: what is open breaks off, and for a while nothing
// can be opened.
type line struct {
	env *env.Env

	mu    sync.Mutex // guards what follows
	open  map[net.Conn]struct{}
	until time.Time // before it nothing can be opened
}

func newLine(e *env.Env) *line { return &line{env: e, open: map[net.Conn]struct{}{}} }

func (l *line) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 4}}
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.down() {
		return nil, errNoLine
	}
	var dialer net.Dialer
	opened, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err //nolint:wrapcheck // net says what and where
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[opened] = struct{}{}
	return &lineConn{Conn: opened, line: l}, nil
}

func (l *line) down() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.env.Now().Before(l.until)
}

// cut breaks everything off, without a good-bye, for a while.
func (l *line) cut(outage time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = l.env.Now().Add(outage)
	for opened := range l.open {
		if tcp, ok := opened.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, as from a network that is gone
		}
		_ = opened.Close()
	}
	clear(l.open)
}

// lineConn is a connection that its line knows.
type lineConn struct {
	net.Conn

	line *line
}

// Close closes the connection.
func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.open, c.Conn)
	c.line.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // it stands in for it
}
