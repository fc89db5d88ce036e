package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit/postgres"
)

// adminURL is the server of this process's tests. A private cluster is never stopped here: it ends
// with the process.
var adminURL = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("CAIRN_TEST_POSTGRES"); given != "" {
		return given, nil
	}
	cluster, err := postgres.Start("", postgres.Options{})
	if err != nil {
		return "", err
	}
	return cluster.URL(""), nil
})

// adminTimeout bounds one administrative statement.
const adminTimeout = 60 * time.Second

// template is the name of a migrated database that others are copied from, one per schema and server.
var template = sync.OnceValues(func() (string, error) {
	admin, err := adminURL()
	if err != nil {
		return "", err
	}
	name, err := templateName()
	if err != nil {
		return "", err
	}
	return name, withAdmin(admin, func(ctx context.Context, conn *pgx.Conn) error { return makeTemplate(ctx, conn, admin, name) })
})

// templateName depends on everything the program knows about the schema.
func templateName() (string, error) {
	hash := sha256.New()
	if err := storage.WriteMigrations(hash); err != nil {
		return "", err
	}
	return "cairn_template_" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// templateLock keeps two test processes from making the template at once.
const templateLock = 7215046

// makeTemplate migrates under another name first, so that a template is complete once it exists.
func makeTemplate(ctx context.Context, conn *pgx.Conn, admin, name string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
		return fmt.Errorf("lock template: %w", err)
	}
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil || exists {
		return err
	}
	draft := name + "_draft"
	if err := run(ctx, conn, "DROP DATABASE IF EXISTS "+draft+" WITH (FORCE)", createDatabase(draft, "template0")); err != nil {
		return err
	}
	draftURL, err := databaseURL(admin, draft)
	if err != nil {
		return err
	}
	if err := storage.Migrate(ctx, draftURL); err != nil {
		return err
	}
	return run(ctx, conn, "ALTER DATABASE "+draft+" RENAME TO "+name)
}

func newPostgres(t testing.TB) string {
	t.Helper()
	source, err := template()
	require.NoError(t, err)
	return copyPostgres(t, source)
}

func emptyPostgres(t testing.TB) string {
	t.Helper()
	return copyPostgres(t, "template0")
}

// copyPostgres makes a database from another one and drops it at cleanup.
func copyPostgres(t testing.TB, source string) string {
	t.Helper()
	admin, err := adminURL()
	require.NoError(t, err)
	name := "test_" + strings.ToLower(rand.Text())
	require.NoError(t, administer(admin, createDatabase(name, source)))
	t.Cleanup(func() { require.NoError(t, administer(admin, "DROP DATABASE "+name+" WITH (FORCE)")) })
	address, err := databaseURL(admin, name)
	require.NoError(t, err)
	return address
}

func createDatabase(name, source string) string {
	return fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s ENCODING 'UTF8'", name, source)
}

func administer(admin string, statements ...string) error {
	return withAdmin(admin, func(ctx context.Context, conn *pgx.Conn) error { return run(ctx, conn, statements...) })
}

func withAdmin(admin string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}

func run(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("run %q: %w", statement, err)
		}
	}
	return nil
}

// databaseURL is the URL of another database of a server.
func databaseURL(admin, name string) (string, error) {
	parsed, err := url.Parse(admin)
	if err != nil {
		return "", fmt.Errorf("read CAIRN_TEST_POSTGRES: %w", err)
	}
	parsed.Path = "/" + name
	return parsed.String(), nil
}
