// Package netproxy stands between a client and a server of a test and makes the network between them bad.
//
// A Proxy listens on loopback and ends with its test. It is safe for concurrent use; a change of mode concerns open
// connections too.
package netproxy

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Mode is how bad the network is.
type Mode int

// The modes.
const (
	Good    Mode = iota // everything passes
	Refuse              // connections are reset, new ones too
	Swallow             // connections stand, nothing passes
	OneWay              // what the client sends passes, nothing comes back: answers are lost
)

// Proxy is one way to one server.
type Proxy struct {
	target   string
	listener net.Listener

	mu      sync.Mutex // guards what follows
	mode    Mode
	delay   time.Duration
	changed chan struct{} // closed, and replaced, at every change
	open    map[net.Conn]bool
	closed  bool
	pipes   sync.WaitGroup
}

// New stands in front of a server's base URL; URL is the one to use instead.
func New(t testing.TB, baseURL string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{
		target: strings.TrimPrefix(baseURL, "http://"), listener: listener, changed: make(chan struct{}), open: map[net.Conn]bool{},
	}
	p.pipes.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL is the base URL of the way through the proxy.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Point leads later connections to another server.
func (p *Proxy) Point(baseURL string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(baseURL, "http://")
}

// Set changes the mode.
func (p *Proxy) Set(mode Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	p.tell()
	if mode == Refuse {
		p.reset()
	}
}

// Delay holds each piece of data for so long, in both directions.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Reset breaks every open connection, once.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reset()
}

// HalfClose ends the client's side of every open connection, as a proxy that times out does.
func (p *Proxy) HalfClose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}
}

func (p *Proxy) reset() {
	for conn := range p.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

func (p *Proxy) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.tell()
	p.reset()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.pipes.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refused, target := p.mode == Refuse || p.closed, p.target
		p.mu.Unlock()
		if refused {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.join(client, server)
	}
}

// join connects both sides until one ends.
func (p *Proxy) join(client, server net.Conn) {
	p.mu.Lock()
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pipe(server, client, false) })
	both.Go(func() { p.pipe(client, server, true) })
	p.pipes.Go(func() {
		both.Wait()
		p.mu.Lock()
		delete(p.open, client)
		delete(p.open, server)
		p.mu.Unlock()
	})
}

func (p *Proxy) pipe(to, from net.Conn, back bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && (!p.pass(back) || !writeAll(to, buffer[:n])) {
			return
		}
		if err != nil {
			return
		}
	}
}

func writeAll(to io.Writer, data []byte) bool {
	_, err := to.Write(data)
	return err == nil
}

// pass waits until data may go on; false is never.
func (p *Proxy) pass(back bool) bool {
	for {
		p.mu.Lock()
		held := p.mode == Swallow || p.mode == OneWay && back
		ended, changed, delay := p.closed || p.mode == Refuse, p.changed, p.delay
		p.mu.Unlock()
		switch {
		case ended:
			return false
		case !held:
			if delay > 0 {
				<-time.After(delay)
			}
			return true
		}
		<-changed
	}
}
