package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/service"
)

// Bounds of one HTTP exchange; streams leave net/http and have bounds of their own (conn.Limits).
const (
	readTimeout    = 2 * time.Minute // of a whole body
	writeTimeout   = 2 * time.Minute // from the end of the head to the end of the answer
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// silentGrace is how long a stop waits for the first byte of a connection: clients keep spare ones open, and
	// net/http alone would wait for five seconds.
	silentGrace = 500 * time.Millisecond
)

// listener accepts HTTP on the main address, and on the one for metrics if there is one.
type listener struct {
	log         *slog.Logger
	env         *env.Env
	certificate *tls.Certificate
	servers     []*bound
	hurry       func() // makes waiting requests answer
	failed      chan error
	done        sync.WaitGroup
}

// bound is a server and where it listens.
type bound struct {
	*http.Server

	silent silentConns
	socket net.Listener
}

func newListener(o Options, handler http.Handler, m *metrics, certificate *tls.Certificate, hurry func()) *listener {
	l := &listener{log: o.Log, env: o.Env, certificate: certificate, hurry: hurry, failed: make(chan error, 2)}
	l.add(o, o.Config.Listen, handler)
	if o.Config.Metrics.Listen != "" {
		l.add(o, o.Config.Metrics.Listen, m.handler())
	}
	return l
}

func (l *listener) add(o Options, address string, handler http.Handler) {
	// HTTP/1.1 only: WebSocket and the stream writer take the connection over. A reverse proxy gives
	// browsers HTTP/2.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &bound{Server: &http.Server{
		Addr: address, Handler: handler, Protocols: protocols,
		ReadHeaderTimeout: o.Config.HTTP.ReadHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}
	server.ConnState = server.silent.note
	l.servers = append(l.servers, server)
}

// Start listens on every address, then serves.
func (l *listener) Start(ctx context.Context) error {
	var config net.ListenConfig
	for i, server := range l.servers {
		socket, err := config.Listen(ctx, "tcp", server.Addr)
		if err != nil {
			for _, earlier := range l.servers[:i] {
				_ = earlier.socket.Close() // nothing was accepted yet
			}
			return fmt.Errorf("listen on %s: %w", server.Addr, err)
		}
		if i == 0 && l.certificate != nil {
			socket = tls.NewListener(socket, &tls.Config{
				Certificates: []tls.Certificate{*l.certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			})
		}
		server.socket = socket
	}
	for _, server := range l.servers {
		l.done.Go(func() {
			if err := server.Serve(server.socket); !errors.Is(err, http.ErrServerClosed) {
				l.log.Error("cannot accept connections any more", "address", server.Addr, "error", err)
				l.failed <- fmt.Errorf("accept connections on %s: %w", server.Addr, err)
			}
		})
	}
	return nil
}

// Stop stops to accept and waits for the requests in flight, for half of the time that ctx leaves;
// those still there are cut, so that the rest of the server can end in good order too.
func (l *listener) Stop(ctx context.Context) error {
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline.Sub(l.env.Now())/2)
		defer cancel()
	}
	l.hurry()
	var failures []error
	for _, server := range l.servers {
		if err := server.shutdown(ctx); err != nil {
			failures = append(failures, err, server.Close())
		}
	}
	l.done.Wait()
	return errors.Join(failures...)
}

// shutdown stops to accept and waits for the requests in flight, not for connections on which none has begun.
func (b *bound) shutdown(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- b.Shutdown(ctx) }()
	grace := time.NewTimer(silentGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		return err
	case <-grace.C:
		b.silent.close()
		return <-ended
	}
}

// silentConns are the connections that have sent nothing yet.
type silentConns struct {
	mu   sync.Mutex // guards open
	open map[net.Conn]struct{}
}

// note is told of every change (http.Server.ConnState).
func (s *silentConns) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state != http.StateNew {
		delete(s.open, c)
		return
	}
	if s.open == nil {
		s.open = map[net.Conn]struct{}{}
	}
	s.open[c] = struct{}{}
}

func (s *silentConns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.Close() // it has nothing to lose
	}
}

// front is what clients are connected to: requests and streams. They end at the same time, so that a
// request that hangs does not keep streams from their clean end.
type front struct {
	listener *listener
	streams  []service.Service
}

// Start begins to accept.
func (f front) Start(ctx context.Context) error {
	for i, streams := range f.streams {
		if err := streams.Start(ctx); err != nil {
			return errors.Join(err, stopAll(ctx, f.streams[:i]))
		}
	}
	if err := f.listener.Start(ctx); err != nil {
		return errors.Join(err, stopAll(ctx, f.streams))
	}
	return nil
}

// Stop ends requests and streams.
func (f front) Stop(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- stopAll(ctx, f.streams) }()
	return errors.Join(f.listener.Stop(ctx), <-ended)
}

// stopAll stops services at the same time.
func stopAll(ctx context.Context, services []service.Service) error {
	ended := make(chan error, len(services))
	for _, one := range services {
		go func() { ended <- one.Stop(ctx) }()
	}
	failures := make([]error, len(services))
	for i := range services {
		failures[i] = <-ended
	}
	return errors.Join(failures...)
}

func (l *listener) url() string {
	scheme := "http"
	if l.certificate != nil {
		scheme = "https"
	}
	address, ok := l.servers[0].socket.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "127.0.0.1" // reachable from here; the outside has its own name for it
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(address.Port))
}
