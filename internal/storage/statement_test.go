package storage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

type named string

func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		at := time.Date(2026, 9, 13, 10, 0, 0, 123456000, time.UTC)
		text, number := "ă 🌊 ' \" $1", int64(1<<62)
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			if _, err := tx.Changed("CREATE TABLE kinds (id text, flag boolean, n bigint, at bigint, f double precision)"); err != nil {
				return err
			}
			const insert = "INSERT INTO kinds (id, flag, n, at, f) VALUES ($1, $2, $3, $4, $5)"
			if err := tx.Exec(insert, named(text), true, &number, at, 1.5); err != nil {
				return err
			}
			return tx.Exec(insert, (*string)(nil), nil, (*int64)(nil), (*time.Time)(nil), nil)
		}))
		require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
			checkPresent(t, tx, text, number, at)
			checkAbsent(t, tx)
			return nil
		}))
	})
}

func checkPresent(t *testing.T, tx storage.Tx, text string, number int64, at time.Time) {
	const query = "SELECT id, id, id, id, flag, n, n, at, at, f FROM kinds WHERE id = $1"
	var (
		s  string
		sp *string
		b  []byte
		nm named
		ok bool
		n  int64
		np *int64
		tm time.Time
		tp *time.Time
		f  float64
	)
	found, err := tx.Get(query, []any{text}, &s, &sp, &b, &nm, &ok, &n, &np, &tm, &tp, &f)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, []any{text, text, text, named(text)}, []any{s, *sp, string(b), nm})
	require.Equal(t, []any{true, number, number, at, at, 1.5}, []any{ok, n, *np, tm, *tp, f})
}

func checkAbsent(t *testing.T, tx storage.Tx) {
	const query = "SELECT id, id, n, at FROM kinds WHERE id IS NULL AND flag IS NULL AND f IS NULL"
	s, n, at := new(string), new(int64), new(time.Time)
	b := []byte("before")
	found, err := tx.Get(query, nil, &s, &b, &n, &at)
	require.NoError(t, err)
	require.True(t, found)
	require.Nil(t, s)
	require.Nil(t, b)
	require.Nil(t, n)
	require.Nil(t, at)
	var plain string
	_, err = tx.Get("SELECT id FROM kinds WHERE id IS NULL", nil, &plain)
	require.ErrorContains(t, err, "NULL")
	var small int
	_, err = tx.Get("SELECT count(*) FROM kinds", nil, &small)
	require.NoError(t, err, "a scan that failed leaves the transaction usable")
	require.Equal(t, 2, small)
}

func TestPortableDialect(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		withCounters(t, db.DB, "a", "b", "c")
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			require.Equal(t, "a,c", ids(t, tx, "SELECT id FROM counters WHERE id = ANY($1) ORDER BY id FOR UPDATE", []string{"c", "a", "x"}))
			require.Equal(t, "a,b", ids(t, tx, "SELECT id FROM counters WHERE id <> ALL($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED", []named{"c"}))
			require.Empty(t, ids(t, tx, "SELECT id FROM counters WHERE id = ANY($1)", []string{}))
			require.Equal(t, "a,b,c", ids(t, tx, "SELECT id FROM counters WHERE n = ANY($1) ORDER BY id", []int64{0, 7}))
			require.Equal(t, "b", ids(t, tx, "SELECT id FROM counters WHERE n < $2 AND id = $1 -- $3 = ANY($4)", "b", 1))
			require.Equal(t, "$1", ids(t, tx, "SELECT '$1' FROM counters WHERE id = $1 FOR UPDATE OF counters NOWAIT", "b"))
			changed, err := tx.Changed("UPDATE counters SET n = 5 WHERE id = ANY($1)", []string{"a", "b"})
			require.NoError(t, err)
			require.EqualValues(t, 2, changed)
			changed, err = tx.Changed("INSERT INTO counters (id, n) VALUES ($1, 1) ON CONFLICT (id) DO NOTHING", "a")
			require.NoError(t, err)
			require.Zero(t, changed)
			var n int64
			found, err := tx.Get("WITH gone AS (SELECT id FROM counters WHERE n = 5 AND id = $1) SELECT count(*) FROM gone", []any{"a"}, &n)
			require.NoError(t, err)
			require.True(t, found)
			require.EqualValues(t, 1, n)
			found, err = tx.Get("DELETE FROM counters WHERE id = $1 RETURNING n", []any{"a"}, &n)
			require.NoError(t, err)
			require.True(t, found)
			require.EqualValues(t, 5, n)
			found, err = tx.Get("SELECT n FROM counters WHERE id = $1", []any{"a"}, &n)
			require.NoError(t, err)
			require.False(t, found)
			return nil
		}))
	})
}

func ids(t *testing.T, tx storage.Tx, query string, args ...any) string {
	t.Helper()
	var found []string
	require.NoError(t, tx.Query(query, args, func(row storage.Row) error {
		var id string
		defer func() { found = append(found, id) }()
		return row.Scan(&id)
	}))
	return strings.Join(found, ",")
}

func TestInsertManyRows(t *testing.T) {
	t.Parallel()
	table := storage.Table{Name: "many", Columns: []storage.Column{{"id", storage.Text}, {"n", storage.Bigint}, {"even", storage.Boolean}, {"note", storage.Text}}}
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		for _, size := range []int{0, 1, 2, 1000, 4500} {
			rows := make([][]any, size)
			for i := range rows {
				rows[i] = []any{named("row"), i, i%2 == 0, nil}
			}
			require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
				if _, err := tx.Changed("DROP TABLE IF EXISTS many"); err != nil {
					return err
				}
				if _, err := tx.Changed("CREATE TABLE many (id text, n bigint, even boolean, note text)"); err != nil {
					return err
				}
				return tx.Insert(table, rows)
			}))
			require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
				var all, even, notes int
				_, err := tx.Get("SELECT count(*), count(*) FILTER (WHERE even), count(note) FROM many", nil, &all, &even, &notes)
				require.Equal(t, []int{size, (size + 1) / 2, 0}, []int{all, even, notes})
				return err
			}))
		}
		err := db.DB.Write(t.Context(), nil, func(tx storage.Tx) error { return tx.Insert(table, [][]any{{"short"}}) })
		require.ErrorContains(t, err, "1 values for 4 columns")
	})
}

func TestRowCallbacks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		withCounters(t, db.DB, "a", "b", "c")
		stop := fmtError("enough")
		require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
			seen := 0
			err := tx.Query("SELECT id FROM counters", nil, func(storage.Row) error {
				seen++
				return stop
			})
			require.Equal(t, stop, err, "a callback's error comes back as it is")
			require.Equal(t, 1, seen)
			err = tx.Query("SELECT id FROM counters", nil, func(storage.Row) error {
				return tx.Query("SELECT 1", nil, func(storage.Row) error { return nil })
			})
			require.ErrorContains(t, err, "row callback")
			require.Equal(t, "a,b,c", ids(t, tx, "SELECT id FROM counters ORDER BY id"))
			require.Error(t, tx.Exec("DELETE FROM counters"), "a Read cannot write")
			return nil
		}))
		require.EqualValues(t, 0, count(t, db.DB, "a"))
	})
}

type fmtError string

func (e fmtError) Error() string { return string(e) }
