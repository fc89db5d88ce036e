package files

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// pollInterval is how often the worker looks when nobody wakes it.
	pollInterval = 2 * time.Second
	// sweepInterval is how often it looks for what was abandoned.
	sweepInterval = time.Hour
	// scanTimeout bounds one scan; a worker that died loses its claim after scanClaim.
	scanTimeout = 5 * time.Minute
	scanClaim   = scanTimeout + 10*time.Second
	// scanBackoff doubles with every failed attempt, up to scanBackoffMost.
	scanBackoff     = time.Second
	scanBackoffMost = 5 * time.Minute
	// step is how many files or contents one transaction takes.
	step = 100
)

// Worker scans what was uploaded and removes what nothing holds. There may be one in every node. Make it
// with NewWorker.
type Worker struct {
	files  *Service
	cancel context.CancelFunc
	done   sync.WaitGroup
	swept  time.Time
}

// NewWorker makes the worker of a service.
func NewWorker(s *Service) *Worker { return &Worker{files: s} }

// Start begins the work.
func (w *Worker) Start(ctx context.Context) error {
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	w.done.Go(func() { w.run(ctx) })
	return nil
}

// Stop ends the work; a scan that runs is given up and done again.
func (w *Worker) Stop(context.Context) error {
	if w.cancel != nil {
		w.cancel()
	}
	w.done.Wait()
	return nil
}

// wake has the worker of this process look at once.
func (s *Service) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // it is asked already
	}
}

func (w *Worker) run(ctx context.Context) {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		w.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-w.files.woken:
		case <-poll.C:
		}
	}
}

// round does everything that is due. What fails is logged and due again later.
func (w *Worker) round(ctx context.Context) {
	jobs := []struct {
		what string
		do   func(context.Context) error
	}{{"scan files", w.files.scanDue}, {"remove contents", w.files.removeUnused}}
	if now := w.files.Env.Now(); now.Sub(w.swept) >= sweepInterval {
		w.swept = now
		jobs = append(jobs, struct {
			what string
			do   func(context.Context) error
		}{"remove abandoned files", w.files.Sweep})
	}
	for _, job := range jobs {
		if err := job.do(ctx); err != nil && ctx.Err() == nil {
			w.files.Logger.Warn(job.what, "error", err)
		}
	}
}

// scanDue scans what waits, one after another.
func (s *Service) scanDue(ctx context.Context) error {
	for ctx.Err() == nil {
		due, err := storage.Read(ctx, s.DB, func(tx storage.Tx) ([]wire.File, error) {
			return read(tx, `SELECT `+columns+` FROM files f
			   WHERE f.scan_status = 'pending' AND f.upload_state = 'complete' AND f.deleted_at IS NULL AND f.scan_after <= $1
			   ORDER BY f.scan_after LIMIT $2`, tx.Now(), step)
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, file := range due {
			if err := s.scanOne(ctx, file.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimed is a file that this worker scans.
type claimed struct {
	name     string // "" when another worker was faster
	attempts int64
}

func (s *Service) scanOne(ctx context.Context, id string) error {
	claim, err := storage.Write(ctx, s.DB, lockFile(id), func(tx storage.Tx) (claimed, error) { return claimScan(tx, id) })
	if err != nil || claim.name == "" {
		return err
	}
	verdict, err := s.look(ctx, claim.name)
	if err == nil {
		return s.conclude(ctx, id, verdict)
	}
	if ctx.Err() == nil {
		s.Logger.Warn("scan file", "file", id, "attempt", claim.attempts, "error", err)
	}
	return s.postpone(context.WithoutCancel(ctx), id, claim.attempts, ctx.Err() != nil)
}

func lockFile(id string) []storage.Key { return []storage.Key{{Lock: storage.LockFiles, ID: id}} }

// claimScan keeps other workers from a file for as long as a scan may take.
func claimScan(tx storage.Tx, id string) (claimed, error) {
	var c claimed
	found, err := tx.Get(
		`UPDATE files SET scan_after = $2, scan_attempts = scan_attempts + 1
		  WHERE id = $1 AND scan_status = 'pending' AND upload_state = 'complete' AND deleted_at IS NULL AND scan_after <= $3
		  RETURNING scan_attempts`, []any{id, tx.Now().Add(scanClaim), tx.Now()}, &c.attempts)
	if err != nil {
		return c, fmt.Errorf("claim file to scan: %w", err)
	}
	if !found {
		return c, nil
	}
	_, err = tx.Get(`SELECT b.name FROM files f JOIN file_blobs b ON b.sha256 = f.sha256 WHERE f.id = $1`, []any{id}, &c.name)
	if err != nil {
		return c, fmt.Errorf("look for content to scan: %w", err)
	}
	return c, nil
}

// look has a content scanned. Without a scanner, after it was switched off, the rest is skipped.
func (s *Service) look(ctx context.Context, name string) (string, error) {
	if s.Scanner == nil {
		return ScanSkipped, nil
	}
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	content, err := os.Open(s.store.path(name))
	if err != nil {
		return "", fmt.Errorf("open content to scan: %w", err)
	}
	defer func() { _ = content.Close() }()
	verdict, err := s.Scanner.Scan(ctx, content)
	switch {
	case err != nil:
		return "", err
	case verdict.Clean:
		return ScanClean, nil
	default:
		s.Logger.Warn("a file is infected", "content", name, "found", verdict.Found)
		return ScanInfected, nil
	}
}

// conclude writes the verdict down and tells it.
func (s *Service) conclude(ctx context.Context, id, status string) error {
	_, err := change(ctx, s, id, nil, func(tx storage.Tx) (struct{}, error) {
		file, found, err := fileOf(tx, id)
		if err != nil || !found || file.DeletedAt != nil || file.ScanStatus != ScanPending {
			return struct{}{}, err
		}
		file.ScanStatus, file.Version = status, file.Version+1
		if err := tx.Exec(`UPDATE files SET scan_status = $2, version = $3 WHERE id = $1`, id, status, file.Version); err != nil {
			return struct{}{}, fmt.Errorf("write verdict: %w", err)
		}
		return struct{}{}, s.tell(tx, wire.Actor{Kind: wire.KindSystem}, "", file)
	})
	return err
}

// postpone puts a scan off that failed; one that was given up is due at once, and was no attempt.
func (s *Service) postpone(ctx context.Context, id string, attempts int64, givenUp bool) error {
	wait := scanBackoffMost
	if attempts < 10 {
		wait = min(wait, scanBackoff<<attempts)
	}
	var counted int64 = 1
	if givenUp {
		wait, counted = 0, 0
	}
	return s.DB.Write(ctx, lockFile(id), func(tx storage.Tx) error {
		err := tx.Exec(`UPDATE files SET scan_after = $2, scan_attempts = $3 WHERE id = $1 AND scan_status = 'pending'`,
			id, tx.Now().Add(wait), attempts-1+counted)
		if err != nil {
			return fmt.Errorf("put off scan: %w", err)
		}
		return nil
	})
}
