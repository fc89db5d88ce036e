package storage_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// requireRefusal opens and expects a refusal that says what to do.
func requireRefusal(t *testing.T, options storage.Options, reason storage.Reason, advice string) {
	t.Helper()
	db, err := storage.Open(t.Context(), options)
	if err == nil {
		require.NoError(t, db.Close())
	}
	var refusal *storage.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, reason, refusal.Reason, refusal.Error())
	require.Contains(t, refusal.Error(), advice)
	require.NotContains(t, refusal.Error(), "secret")
}

func TestRefusedURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "cairn.db", "mysql://u:secret@h/d", "postgres:x", "sqlite:", "sqlite::memory:", "sqlite:file:x?mode=memory", "postgres://u:secret@h:port/d"} {
		requireRefusal(t, storage.Options{URL: url}, storage.BadURL, "URL")
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	started := time.Now()
	requireRefusal(t, storage.Options{URL: "postgres://u:secret@127.0.0.1:1/d"}, storage.Unreachable, "127.0.0.1:1")
	require.Less(t, time.Since(started), 10*time.Second)
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	requireRefusal(t, storage.Options{URL: "sqlite:" + filepath.Join(dir, "missing", "x.db")}, storage.MissingFolder, "make it first")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text.db"), []byte(strings.Repeat("no database ", 200)), 0o600))
	requireRefusal(t, storage.Options{URL: "sqlite:" + filepath.Join(dir, "text.db")}, storage.ForeignDatabase, "not a SQLite database")
	requireRefusal(t, storage.Options{URL: "sqlite:" + filepath.Join(dir, "text.db", "x.db")}, storage.MissingFolder, "not a folder")
	requireRefusal(t, storage.Options{URL: "sqlite:" + dir}, storage.ForeignDatabase, "not a file")
}

func TestRefusedSchemas(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			empty := testkit.EmptyURL(t, engine)
			old := storage.OldSchema
			if engine == testkit.SQLite {
				old = storage.MissingFile
			}
			requireRefusal(t, storage.Options{URL: empty, Migrate: storage.MigrateRefuse}, old, "cairn migrate up")

			foreign := testkit.EmptyURL(t, engine)
			runRaw(t, foreign, "CREATE TABLE theirs (id text)")
			requireRefusal(t, storage.Options{URL: foreign}, storage.ForeignDatabase, "not cairn's")
			require.Error(t, storage.Migrate(t.Context(), foreign))

			newer := testkit.NewURL(t, engine)
			runRaw(t, newer, "INSERT INTO cairn_migrations (version_id, is_applied) VALUES (99999, TRUE)")
			requireRefusal(t, storage.Options{URL: newer}, storage.NewerSchema, "99999")
			_, err := storage.MigrationStatus(t.Context(), newer)
			require.ErrorContains(t, err, "99999")
		})
	}
}

func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.Postgres)
	requireRefusal(t, storage.Options{URL: url + "&default_transaction_read_only=on"}, storage.ReadOnly, "primary")
}

func TestServerOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	server, err := testkit.StartPostgres("", testkit.ServerOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	runRaw(t, server.URL(""), "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'")
	requireRefusal(t, storage.Options{URL: server.URL("latin")}, storage.ForeignDatabase, "UTF8")
}

func TestOneServerPerFile(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	first, err := storage.Open(t.Context(), storage.Options{URL: url, Server: true})
	require.NoError(t, err)
	requireRefusal(t, storage.Options{URL: url, Server: true}, storage.InUse, "stop it first")
	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(strings.TrimPrefix(url, "sqlite:"), link))
	requireRefusal(t, storage.Options{URL: "sqlite:" + link, Server: true}, storage.InUse, "stop it first")
	withCounters(t, testkit.Open(t, storage.Options{URL: url}), "a") // administration goes on
	require.NoError(t, first.Close())
	testkit.Open(t, storage.Options{URL: url, Server: true})
}

// asChild names what the test binary does when a test starts it as another process.
const asChild = "CAIRN_STORAGE_TEST_CHILD"

func childCommand(t *testing.T, task, url string) *exec.Cmd {
	t.Helper()
	child := exec.Command(testBinary(t))
	child.Env = append(os.Environ(), asChild+"="+task, "CAIRN_STORAGE_TEST_URL="+url)
	child.Stderr = os.Stderr
	return child
}

func runRaw(t *testing.T, url, statement string) {
	t.Helper()
	if path, isFile := strings.CutPrefix(url, "sqlite:"); isFile {
		runSQLite(t, path, statement)
		return
	}
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}
