package storage_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
)

// TestMain is also the entry of the other processes that tests start.
func TestMain(m *testing.M) {
	if task := os.Getenv(asChild); task != "" {
		if err := childTasks[task](context.Background(), os.Getenv("CAIRN_STORAGE_TEST_URL")); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var childTasks = map[string]func(context.Context, string) error{
	// hold serves the file until it is killed.
	"hold": func(ctx context.Context, url string) error {
		if _, err := storage.Open(ctx, storage.Options{URL: url, Server: true}); err != nil {
			return err
		}
		fmt.Println("ready")
		select {}
	},
	// count increments the counter a hundred times, one commit each.
	"count": func(ctx context.Context, url string) error {
		db, err := storage.Open(ctx, storage.Options{URL: url, Migrate: storage.MigrateRefuse})
		if err != nil {
			return err
		}
		for range childIncrements {
			if err := db.Write(ctx, nil, readModifyWrite("a")); err != nil {
				return err
			}
		}
		return db.Close()
	},
	// append acknowledges every write on its output until it is killed.
	"append": func(ctx context.Context, url string) error {
		db, err := storage.Open(ctx, storage.Options{URL: url, Migrate: storage.MigrateRefuse})
		if err != nil {
			return err
		}
		for i := 1; ; i++ {
			if err := db.Write(ctx, nil, readModifyWrite("a")); err != nil {
				return err
			}
			fmt.Println(i)
		}
	},
	// refused opens the file and expects a refusal for being read-only.
	"read only": func(ctx context.Context, url string) error {
		_, err := storage.Open(ctx, storage.Options{URL: url, Migrate: storage.MigrateRefuse})
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			return fmt.Errorf("opened a read-only file: %w", err)
		}
		return nil
	},
}

const childIncrements = 100

func testBinary(t *testing.T) string {
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func runSQLite(t *testing.T, path, statement string) {
	conn, err := sqlite3.Open(path)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Exec(statement))
}

func TestLockOfAKilledServerIsFree(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	child := childCommand(t, "hold", url)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	requireRefusal(t, storage.Options{URL: url, Server: true}, storage.InUse, "another cairn server")
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	testkit.Open(t, storage.Options{URL: url, Server: true})
}

func TestTwoProcessesWriteOneFile(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	db := testkit.Open(t, storage.Options{URL: url, Server: true})
	withCounters(t, db, "a")
	before := dataVersion(t, db)
	require.NoError(t, db.Write(t.Context(), nil, readModifyWrite("a")))
	require.Equal(t, before, dataVersion(t, db), "the writer's own commits do not count")
	child := childCommand(t, "count", url)
	require.NoError(t, child.Start())
	for range childIncrements {
		require.NoError(t, db.Write(t.Context(), nil, readModifyWrite("a")))
	}
	require.NoError(t, child.Wait())
	require.EqualValues(t, 2*childIncrements+1, count(t, db, "a"))
	require.NotEqual(t, before, dataVersion(t, db))
}

// dataVersion is what the writer's connection knows of other processes' commits.
func dataVersion(t *testing.T, db storage.DB) int64 {
	t.Helper()
	version, err := storage.Write(t.Context(), db, nil, func(tx storage.Tx) (int64, error) {
		var version int64
		_, err := tx.Get(`PRAGMA data_version`, nil, &version)
		return version, err
	})
	require.NoError(t, err)
	return version
}

func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	db := testkit.Open(t, storage.Options{URL: url})
	withCounters(t, db, "a")
	child := childCommand(t, "append", url)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	acknowledged := int64(0)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if acknowledged++; acknowledged == 200 {
			require.NoError(t, child.Process.Kill())
		}
	}
	require.Error(t, child.Wait())
	n := count(t, db, "a")
	require.GreaterOrEqual(t, n, acknowledged)
	require.LessOrEqual(t, n, acknowledged+1)
	require.NoError(t, db.Write(t.Context(), nil, readModifyWrite("a")))
}

func TestFileThatStaysBusy(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	db := testkit.Open(t, storage.Options{URL: url})
	withCounters(t, db, "a")
	other, err := sqlite3.Open(strings.TrimPrefix(url, "sqlite:"))
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Exec("BEGIN IMMEDIATE"))
	require.EqualValues(t, 0, count(t, db, "a"), "readers do not wait")
	err = db.Write(t.Context(), nil, func(tx storage.Tx) error { return increment(tx, "a") })
	require.True(t, fault.Is(err, code.Unavailable), "%v", err)
	require.NoError(t, other.Exec("ROLLBACK"))
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return increment(tx, "a") }))
	require.EqualValues(t, 1, count(t, db, "a"))
}

// TestFullDisk lets the file grow no further: SQLite may then end a transaction by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	db := testkit.Open(t, storage.Options{URL: testkit.NewURL(t, testkit.SQLite)})
	withCounters(t, db, "a")
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
		if _, err := tx.Changed("CREATE TABLE big (content text)"); err != nil {
			return err
		}
		var pages int64
		if _, err := tx.Get("SELECT page_count FROM pragma_page_count", nil, &pages); err != nil {
			return err
		}
		_, err := tx.Changed(fmt.Sprintf("PRAGMA max_page_count = %d", pages+20))
		return err
	}))
	fill := func(tx storage.Tx) error {
		if err := increment(tx, "a"); err != nil {
			return err
		}
		_ = tx.Exec("INSERT INTO big (content) VALUES ($1)", strings.Repeat("x", 1<<20)) // a careless function
		return increment(tx, "a")
	}
	plain := func(tx storage.Tx) error { return increment(tx, "a") }
	results := together(t, db, plain, fill, plain)
	require.NoError(t, results[0])
	require.ErrorIs(t, results[1], sqlite3.FULL)
	require.NoError(t, results[2])
	require.EqualValues(t, 2, count(t, db, "a"))
}

// TestLogStaysShort writes without a pause, so that no checkpoint beside the writer ever reaches the end
// of the write-ahead log: nothing but the writer's own restart can then begin it anew.
func TestLogStaysShort(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	db := testkit.Open(t, storage.Options{URL: url})
	require.NoError(t, db.Write(t.Context(), nil, func(tx storage.Tx) error {
		_, err := tx.Changed("CREATE TABLE big (id bigint PRIMARY KEY, content text)")
		return err
	}))
	content := strings.Repeat("x", 40<<10)
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			for round := range 300 {
				err := db.Write(t.Context(), nil, func(tx storage.Tx) error {
					return tx.Exec("INSERT INTO big (id, content) VALUES ($1, $2)", 1000*writer+round, content)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	log, err := os.Stat(strings.TrimPrefix(url, "sqlite:") + "-wal")
	require.NoError(t, err)
	const page = 4096 + 24
	require.Less(t, log.Size(), int64(storage.RestartPages*page*3/2))
}

func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := db.DB.Read(ctx, func(tx storage.Tx) error {
			var n int64
			_, err := tx.Get("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c", nil, &n)
			return err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, storage.Ping(t.Context(), db.DB))
		require.Equal(t, db.Engine, storage.EngineName(db.DB))
	})
}

func TestPathsWithOddNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with space.db", "percent%20#.db", "ă.db"} {
		path := filepath.Join(t.TempDir(), name)
		withCounters(t, testkit.Open(t, storage.Options{URL: "sqlite:" + path}), "a")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "others cannot read it")
	}
}

// TestOthersCannotReadTheLog looks at the rights with a umask that would let others read.
func TestOthersCannotReadTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "p.db")
	private := func() {
		t.Helper()
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, name)
		}
	}
	db, err := storage.Open(t.Context(), storage.Options{URL: "sqlite:" + path})
	require.NoError(t, err)
	withCounters(t, db, "a")
	require.EqualValues(t, 0, count(t, db, "a"))
	private()

	t.Run("what an older program left readable is narrowed", func(t *testing.T) {
		require.NoError(t, os.Chmod(path+"-wal", 0o644))
		require.NoError(t, os.Chmod(path+"-shm", 0o644))
		other, err := storage.Open(t.Context(), storage.Options{URL: "sqlite:" + path, Migrate: storage.MigrateRefuse})
		require.NoError(t, err)
		private()
		require.NoError(t, other.Close())
	})
	require.NoError(t, db.Close())
	t.Run("again after the files were taken away", func(t *testing.T) {
		require.NoFileExists(t, path+"-wal")
		db, err := storage.Open(t.Context(), storage.Options{URL: "sqlite:" + path})
		require.NoError(t, err)
		require.NoError(t, db.Write(t.Context(), nil, readModifyWrite("a")))
		private()
		require.NoError(t, db.Close())
	})
	t.Run("somebody else's database is left alone", func(t *testing.T) {
		foreign := filepath.Join(t.TempDir(), "foreign.db")
		runSQLite(t, foreign, "CREATE TABLE theirs (id int)")
		_, err := storage.Open(t.Context(), storage.Options{URL: "sqlite:" + foreign})
		require.Error(t, err)
		require.NoFileExists(t, foreign+"-wal")
		require.NoFileExists(t, foreign+"-shm")
	})
}

func TestAMissingFileIsNotMadeByTheWay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "typo.db")
	requireRefusal(t, storage.Options{URL: "sqlite:" + path, Migrate: storage.MigrateRefuse, Server: true}, storage.MissingFile, "cairn migrate up")
	left, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Empty(t, left)
}
