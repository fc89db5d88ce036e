package signal

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// worker runs goroutines between start and stop.
type worker struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
}

func (w *worker) start(jobs ...func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	for _, job := range jobs {
		w.group.Go(func() { job(ctx) })
	}
}

// stop asks the goroutines to end and waits for them, at most as long as ctx.
func (w *worker) stop(ctx context.Context) error {
	if w.cancel == nil {
		return nil
	}
	w.cancel()
	ended := make(chan struct{})
	go func() {
		w.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for wake-ups to end: %w", ctx.Err())
	}
}

// pause waits for d and answers false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
