package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
)

// pgbench runs PostgreSQL's own load generator on the statements that an append executes, each
// transaction alone, and answers its transactions per second.
func (b *bench) pgbench(ctx context.Context) (perSecond float64, err error) {
	db, err := b.scratch(ctx, postgres)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	script, err := b.script(ctx, db)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(b.dir, "append.pgbench")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, err
	}
	program, err := findPgbench()
	if err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-c", fmt.Sprint(executors), "-j", "2",
		"-T", fmt.Sprint(int(b.span().Seconds())), "-f", file, b.Postgres)
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run pgbench: %w: %s", err, out)
	}
	found := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench said no rate: %s", out)
	}
	return number(string(found[1])), nil
}

func findPgbench() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err != nil || len(installed) == 0 {
		return "", errors.New("pgbench is not installed; it comes with PostgreSQL's contributed programs")
	}
	return installed[len(installed)-1], nil
}

// firstSeq is where the recorded session's log stands, so that its next number is like no other value.
const firstSeq = 7_000_000

// script writes down what one append executes, with what changes from append to append as variables:
// every client has a session of its own.
func (b *bench) script(ctx context.Context, db storage.DB) (string, error) {
	run := b.env.RandomID()
	caller := session.Caller{UserID: run, DeviceID: run + "-device"}
	if err := b.pgbenchSessions(ctx, db, run); err != nil {
		return "", err
	}
	recorded := &recorder{DB: db, replace: map[string]string{
		quoted(run + "-0"):       "('" + run + "-' || :client_id)",
		quoted("event-0"):        "(:log_last_seq)::text",
		fmt.Sprint(firstSeq + 1): "(:log_last_seq + 1)",
		quoted(caller.DeviceID):  "('" + run + "-device-' || :client_id)",
	}}
	service := session.New(recorded, signal.NewLocal(), b.env, nil)
	if _, err := service.Append(ctx, caller, run+"-0", incoming("event", 1)); err != nil {
		return "", err
	}
	lock := recorded.render(storage.LockSessions.Query, []any{[]string{run + "-0"}})
	return strings.Join(append([]string{"BEGIN;", lock + ";", "SELECT clock_timestamp();"}, append(recorded.statements, "COMMIT;")...), "\n"), nil
}

// pgbenchSessions makes a session for every client; the first is the one that is recorded.
func (b *bench) pgbenchSessions(ctx context.Context, db storage.DB, run string) error {
	return db.Write(ctx, nil, func(tx storage.Tx) error {
		if err := tx.Exec(`INSERT INTO users (id, name, created_at) VALUES ($1, $1, $2)`, run, tx.Now()); err != nil {
			return err
		}
		for i := range executors {
			id := fmt.Sprintf("%s-%d", run, i)
			if err := tx.Exec(`INSERT INTO sessions (id, owner_user_id, session_key, e2e, archived, created_at, last_event_at, last_seq,
				lease_device_id, lease_expires_at, lease_revision, control_revision, access_version)
				VALUES ($1, $2, $1, $3, $3, $4, $4, $5, $6, $7, 0, 0, 0)`,
				id, run, false, tx.Now(), int64(firstSeq), run+"-device", tx.Now().Add(session.LeaseTTL)); err != nil {
				return err
			}
		}
		return nil
	})
}

// recorder is a database that writes down the statements of its write functions.
type recorder struct {
	storage.DB

	replace    map[string]string // literals that become variables
	statements []string
}

func (r *recorder) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error) error {
	return r.DB.Write(ctx, keys, func(tx storage.Tx) error {
		r.statements = nil // the function may run again
		return fn(recordedTx{tx, r})
	})
}

type recordedTx struct {
	storage.Tx

	recorder *recorder
}

func (t recordedTx) note(end, query string, args []any) {
	t.recorder.statements = append(t.recorder.statements, t.recorder.render(query, args)+end)
}

func (t recordedTx) Exec(query string, args ...any) error {
	t.note(";", query, args)
	return t.Tx.Exec(query, args...)
}

func (t recordedTx) Query(query string, args []any, each func(storage.Row) error) error {
	end := ";"
	if strings.Contains(query, "FROM sessions s ") {
		end = " \\gset log_" // where the session's log stands
	}
	t.note(end, query, args)
	return t.Tx.Query(query, args, each)
}

func (t recordedTx) Get(query string, args []any, dest ...any) (bool, error) {
	t.note(";", query, args)
	return t.Tx.Get(query, args, dest...)
}

// Insert is written down as PostgreSQL executes it.
func (t recordedTx) Insert(into storage.Table, rows [][]any) error {
	names, columns := make([]string, len(into.Columns)), make([]string, len(into.Columns))
	for i, column := range into.Columns {
		values := make([]string, len(rows))
		for k, row := range rows {
			values[k] = t.recorder.literal(row[i])
		}
		names[i] = column.Name
		columns[i] = "ARRAY[" + strings.Join(values, ", ") + "]::" + string(column.Type) + "[]"
	}
	t.recorder.statements = append(t.recorder.statements, fmt.Sprintf("INSERT INTO %s (%s) SELECT * FROM unnest(%s);",
		into.Name, strings.Join(names, ", "), strings.Join(columns, ", ")))
	return t.Tx.Insert(into, rows)
}

var placeholder = regexp.MustCompile(`\$([0-9]+)`)

// render puts the arguments into a statement and takes its line breaks out.
func (r *recorder) render(query string, args []any) string {
	query = strings.Join(strings.Fields(query), " ")
	return placeholder.ReplaceAllStringFunc(query, func(mark string) string {
		return r.literal(args[int(number(mark[1:]))-1])
	})
}

func (r *recorder) literal(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return "NULL"
	case *string:
		if v == nil {
			return "NULL"
		}
		text = quoted(*v)
	case []byte:
		text = quoted(string(v))
	case string:
		text = quoted(v)
	case []string:
		texts := make([]string, len(v))
		for i, one := range v {
			texts[i] = r.literal(one)
		}
		return "ARRAY[" + strings.Join(texts, ", ") + "]"
	case time.Time:
		text = fmt.Sprint(v.UnixMicro())
	default:
		text = fmt.Sprint(v)
	}
	if replaced, found := r.replace[text]; found {
		return replaced
	}
	return text
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
