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
	return b.runPgbench(ctx, script, executors)
}

// runPgbench runs a script and answers its transactions per second.
func (b *bench) runPgbench(ctx context.Context, script string, clients int) (float64, error) {
	file := filepath.Join(b.dir, "script.pgbench")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, err
	}
	program, err := findPgbench()
	if err != nil {
		return 0, err
	}
	command := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-c", fmt.Sprint(clients), "-j", "2",
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
	recorded := &recorder{DB: db, keep: keepLog, replace: map[string]string{
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

// keepLog keeps where the session's log stands.
func keepLog(query string) string {
	if strings.Contains(query, "FROM sessions s ") {
		return query + " \\gset log_"
	}
	return query + ";"
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
