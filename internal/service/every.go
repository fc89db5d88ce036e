package service

import (
	"context"
	"sync"
	"time"
)

// every runs a task from time to time.
type every struct {
	interval time.Duration
	task     func(ctx context.Context)
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// Every is a service that runs task when it starts and then each interval, one run at a time. The context of
// a run ends when the service stops, and Stop waits for the run.
func Every(interval time.Duration, task func(ctx context.Context)) Service {
	return &every{interval: interval, task: task}
}

func (e *every) Start(ctx context.Context) error {
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.done.Go(func() {
		ticker := time.NewTicker(e.interval)
		defer ticker.Stop()
		for {
			e.task(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return nil
}

func (e *every) Stop(ctx context.Context) error {
	if e.cancel == nil {
		return nil
	}
	e.cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.done.Wait()
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
