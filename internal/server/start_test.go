package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/server"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
)

// start makes and starts a server that should not come up.
func start(t *testing.T, database string, change func(*config.Config)) error {
	t.Helper()
	settings, _, err := config.Load(config.Sources{})
	require.NoError(t, err)
	settings.Listen, settings.Database = "127.0.0.1:0", database
	if change != nil {
		change(&settings)
	}
	node, err := server.New(t.Context(), server.Options{Config: settings, Log: slog.New(slog.DiscardHandler), Env: env.Real()})
	if err != nil {
		return err
	}
	err = node.Start(t.Context())
	require.NoError(t, node.Stop(context.WithoutCancel(t.Context())))
	return err
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// A server that cannot serve does not start, and says why and what to do.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]struct {
		database func(t *testing.T) string
		change   func(t *testing.T, c *config.Config)
		reason   storage.Reason // of a database that is refused
		says     string
	}{
		"a folder that does not exist": {
			database: func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "none", "cairn.db") },
			reason:   storage.MissingFolder,
		},
		"a file that is no database": {
			database: func(t *testing.T) string {
				return "sqlite:" + write(t, "Dear diary, this is not a database, however long it is.")
			},
			reason: storage.ForeignDatabase,
		},
		"a PostgreSQL that does not answer": {
			database: func(*testing.T) string { return "postgres://cairn:secret-word@127.0.0.1:1/cairn?sslmode=disable" },
			reason:   storage.Unreachable,
		},
		"an empty SQLite file without leave to migrate": {
			database: func(t *testing.T) string { return testkit.EmptyURL(t, testkit.SQLite) },
			change:   func(_ *testing.T, c *config.Config) { c.Storage.Migrate = false },
			reason:   storage.MissingFile, says: "migrate",
		},
		"an empty PostgreSQL database without leave to migrate": {
			database: func(t *testing.T) string { return testkit.EmptyURL(t, testkit.Postgres) },
			change:   func(_ *testing.T, c *config.Config) { c.Storage.Migrate = false },
			reason:   storage.OldSchema, says: "migrate",
		},
		"a certificate that is none": {
			change: func(t *testing.T, c *config.Config) { c.TLS.CertFile, c.TLS.KeyFile = write(t, "x"), write(t, "x") },
			says:   "tls.cert_file",
		},
		"push credentials that are not there": {
			change: func(t *testing.T, c *config.Config) {
				c.Push.FCM.Project, c.Push.FCM.CredentialsFile = "p", filepath.Join(t.TempDir(), "none")
			},
			says: "push.fcm.credentials_file",
		},
		"push credentials that are none": {
			change: func(t *testing.T, c *config.Config) {
				c.Push.FCM.Project, c.Push.FCM.CredentialsFile = "p", write(t, "{")
			},
			says: "credentials",
		},
		"an address that is taken": {
			change: func(t *testing.T, c *config.Config) { c.Listen = taken(t) },
			says:   "listen on 127.0.0.1:",
		},
		"an address for metrics that is taken": {
			change: func(t *testing.T, c *config.Config) { c.Metrics.Listen = taken(t) },
			says:   "listen on 127.0.0.1:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testkit.EmptyURL(t, testkit.SQLite)
			if wrong.database != nil {
				database = wrong.database(t)
			}
			err := start(t, database, func(c *config.Config) {
				if wrong.change != nil {
					wrong.change(t, c)
				}
			})
			require.ErrorContains(t, err, wrong.says)
			require.NotContains(t, err.Error(), "secret-word")
			if wrong.reason != "" {
				refusal := new(storage.Refusal)
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, wrong.reason, refusal.Reason, "%v", err)
				require.NotEmpty(t, refusal.Advice)
			}
		})
	}
}

// taken is an address somebody else listens on.
func taken(t *testing.T) string {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return socket.Addr().String()
}

// One SQLite file has one server; others may look at it and change people meanwhile.
func TestOneServerPerFile(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.SQLite)
	node := servertest.Start(t, db, nil)
	err := start(t, db.URL, nil)
	refusal := new(storage.Refusal)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, storage.InUse, refusal.Reason)
	node.Stop(t)
	require.NoError(t, start(t, db.URL, nil), "after the first has stopped")
}

// A start that fails leaves nothing behind that keeps the next one from working.
func TestStartAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		address := taken(t)
		require.Error(t, start(t, db.URL, func(c *config.Config) { c.Listen = address }))
		require.NoError(t, start(t, db.URL, nil))
	})
}

// A server that others reach and that does not know its own address can sign nobody in: it says so at once.
func TestStartWarnsOfAMissingAddress(t *testing.T) {
	t.Parallel()
	for listen, warns := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true, ":0": true} {
		for _, address := range []string{"", "https://chat.example.org"} {
			t.Run(listen+" "+address, func(t *testing.T) {
				t.Parallel()
				settings, _, err := config.Load(config.Sources{Set: []string{"listen=" + listen, "http.public_url=" + address}})
				require.NoError(t, err)
				settings.Database = "sqlite:" + filepath.Join(t.TempDir(), "cairn.db")
				var log bytes.Buffer
				node, err := server.New(t.Context(), server.Options{Config: settings, Log: slog.New(slog.NewTextHandler(&log, nil)), Env: env.Real()})
				require.NoError(t, err)
				require.NoError(t, node.Stop(context.WithoutCancel(t.Context())))
				require.Equal(t, warns && address == "", strings.Contains(log.String(), "http.public_url is not set"), log.String())
			})
		}
	}
}
