package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
)

// retain removes every event of the log while a device is away: it loads everything anew when it comes back.
func retain(ctx context.Context, s *stage) error {
	dara, main := s.dara.first(), s.general.MainThreadID
	if err := s.check(ctx, s.devices()...); err != nil {
		return err
	}
	if err := dara.stop(); err != nil {
		return fmt.Errorf("%s: %w", dara.name, err)
	}
	if err := s.desktop.send(ctx, main, "Dara is out for lunch."); err != nil {
		return err
	}
	others := []*device{s.laptop, s.phone, s.desktop, s.tablet, s.chen.first(), s.emil.first()}
	if err := s.check(ctx, others...); err != nil {
		return err
	}
	removed, err := s.trim(ctx)
	if err != nil {
		return err
	}
	if err := s.say("retention", "removes %d events that every other device has", removed); err != nil {
		return err
	}
	for _, d := range others {
		d.fresh()
	}
	dara.start(ctx)
	if err := s.level(ctx, dara); err != nil {
		return err
	}
	s.resyncs[dara]++
	dara.fresh()
	if _, err := dara.message(main, "Dara is out for lunch."); err != nil {
		return err
	}
	return s.say(dara.name, "cannot catch up any more (resync_required, retention) and loads everything anew")
}

// trim removes all events, as the server does with old ones.
func (s *stage) trim(ctx context.Context) (removed int64, err error) {
	db, err := storage.Open(ctx, storage.Options{URL: s.database, Env: s.Env, Migrate: storage.MigrateRefuse, Lanes: 1, Readers: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for {
		n, err := storage.Write(ctx, db, nil, func(tx storage.Tx) (int64, error) { return eventlog.Trim(tx, 0) })
		if err != nil || n == 0 {
			return removed, err
		}
		removed += n
	}
}

// restore brings the server back from a backup: what was written since is gone, on every device too.
func restore(ctx context.Context, s *stage) error {
	main := s.general.MainThreadID
	if err := s.backUp(ctx); err != nil {
		return err
	}
	if err := s.laptop.send(ctx, main, "This is written after the backup."); err != nil {
		return err
	}
	if err := s.check(ctx, s.devices()...); err != nil {
		return err
	}
	if err := s.server.stop(); err != nil {
		return err
	}
	chen := s.chen.first()
	if err := chen.send(ctx, main, "Is the server away?"); err != nil {
		return err
	}
	if err := s.putBack(); err != nil {
		return err
	}
	var done struct {
		SyncEpoch string `json:"sync_epoch"`
		HeadSeq   int64  `json:"head_seq"`
		SignIns   int64  `json:"sign_ins_ended"`
	}
	if err := s.run(ctx, "", &done, "restore", "finalize"); err != nil {
		return err
	}
	if err := s.say("cairn restore", "finalize: a new epoch after event %d, %d sign-ins ended", done.HeadSeq, done.SignIns); err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	return s.comeBack(ctx, main, done.SyncEpoch)
}

// comeBack signs everybody in again, and checks that the old timeline is forgotten.
func (s *stage) comeBack(ctx context.Context, main, epoch string) error {
	for _, d := range s.devices() {
		d.account.Gateway().Wake()
	}
	for _, d := range s.devices() {
		why, err := d.ends(ctx)
		if err != nil {
			return err
		}
		if !errors.Is(why, client.ErrSignedOut) {
			return fmt.Errorf("%s stopped with %w", d.name, why)
		}
	}
	if err := s.signInAll(ctx); err != nil {
		return err
	}
	for _, d := range s.devices() {
		d.start(ctx)
	}
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	for _, d := range s.devices() {
		s.resyncs[d]++
		if at := d.account.Position(); at.Epoch != epoch {
			return fmt.Errorf("%s is in epoch %s", d.name, at.Epoch)
		}
		d.fresh()
		if _, err := d.message(main, "This is written after the backup."); (err == nil) == s.isRestored() {
			return fmt.Errorf("%s keeps what the backup does not have, or lost what it has", d.name)
		}
		if _, err := d.message(main, "Is the server away?"); err != nil {
			return err
		}
	}
	if err := s.say("seven devices", "sign in again, forget the old timeline (epoch_changed) and load the new one"); err != nil {
		return err
	}
	return s.say(s.chen.first().name, "had a message in the outbox all the time: it is sent now")
}

// isRestored says whether the database is a file of the demonstration's own, which is really put back.
func (s *stage) isRestored() bool { return s.Database == "" }

// backUp copies the database while the server is stopped. A database that was given is left alone: there the timeline
// changes, and nothing is lost.
func (s *stage) backUp(ctx context.Context) error {
	if !s.isRestored() {
		return nil
	}
	if err := s.server.stop(); err != nil {
		return err
	}
	file := strings.TrimPrefix(s.database, "sqlite:")
	if err := copyFile(file, file+".backup"); err != nil {
		return err
	}
	if err := s.serve(ctx); err != nil {
		return err
	}
	for _, d := range s.devices() {
		d.account.Gateway().Wake()
	}
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	return s.say("a backup", "is made; the server restarts, and everybody is back")
}

func (s *stage) putBack() error {
	if !s.isRestored() {
		return nil
	}
	file := strings.TrimPrefix(s.database, "sqlite:")
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove %s: %w", file+suffix, err)
		}
	}
	if err := copyFile(file+".backup", file); err != nil {
		return err
	}
	return s.say("the backup", "is put in place of the database")
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return nil
}
