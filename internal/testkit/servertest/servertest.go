// Package servertest runs whole servers inside tests: the real composition on a real database and a
// real socket.
//
// A Server ends with its test. It is safe for concurrent use.
package servertest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/server"
	"github.com/cairnsync/cairn/internal/testkit"
)

// Server is a running node.
type Server struct {
	*server.Server

	URL     string
	stopped atomic.Bool
}

// Account is a user with a key.
type Account struct{ UserID, Key, Email string }

// Start runs a node on db; change may alter its configuration.
func Start(t *testing.T, db *testkit.Database, change func(*config.Config)) *Server {
	t.Helper()
	defaults, _, err := config.Load(config.Sources{})
	require.NoError(t, err)
	defaults.Listen, defaults.Database, defaults.File.Dir = "127.0.0.1:0", db.URL, t.TempDir()
	if change != nil {
		change(&defaults)
	}
	node, err := server.New(t.Context(), server.Options{Config: defaults, Log: slog.New(slog.NewTextHandler(logWriter{t}, nil)), Env: env.Real()})
	require.NoError(t, err)
	require.NoError(t, node.Start(context.WithoutCancel(t.Context())))
	s := &Server{Server: node, URL: node.URL()}
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// Stop ends the node, once.
func (s *Server) Stop(t *testing.T) {
	t.Helper()
	if s.stopped.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	require.NoError(t, s.Server.Stop(ctx))
}

// Account makes a user with a key.
func (s *Server) Account(t *testing.T, name string) Account {
	t.Helper()
	email := name + "@example.test"
	user, err := s.Identity().AddUser(t.Context(), name, &email)
	require.NoError(t, err)
	return Account{UserID: user.UserID, Key: user.APIKey, Email: email}
}

// logWriter shows a node's log with its test.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(line []byte) (int, error) {
	w.t.Logf("%s", line)
	return len(line), nil
}
