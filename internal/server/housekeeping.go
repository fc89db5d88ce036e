package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
)

// cleanEvery is how often what has had its time is removed, at the latest; what is kept for a short time only is
// looked at more often.
const cleanEvery = 10 * time.Minute

// housekeeper removes events after sync.event_retention (ES-7.3) and stored answers after
// sync.idempotency_key_ttl (ES-5.2). Every node has one; what another has removed is simply gone.
type housekeeper struct {
	db     storage.DB
	env    *env.Env
	log    *slog.Logger
	values config.Sync
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Start begins to clean.
func (h *housekeeper) Start(ctx context.Context) error {
	ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.done.Go(func() {
		for {
			if err := h.clean(ctx); err != nil && ctx.Err() == nil {
				h.log.Warn("remove what has had its time", "error", err)
			}
			pause := time.NewTimer(h.env.Jitter(min(cleanEvery, h.values.EventRetention, h.values.IdempotencyKeyTTL)))
			select {
			case <-ctx.Done():
				pause.Stop()
				return
			case <-pause.C:
			}
		}
	})
	return nil
}

// Stop ends the cleaning.
func (h *housekeeper) Stop(context.Context) error {
	if h.cancel != nil {
		h.cancel()
	}
	h.done.Wait()
	return nil
}

// clean goes in small steps, so that writers do not wait for it.
func (h *housekeeper) clean(ctx context.Context) error {
	for {
		removed, err := storage.Write(ctx, h.db, nil, func(tx storage.Tx) (int64, error) { return eventlog.Trim(tx, h.values.EventRetention) })
		if err != nil {
			return fmt.Errorf("remove old events: %w", err)
		}
		if removed == 0 {
			break
		}
	}
	return idempotency.Sweep(ctx, h.db, h.values.IdempotencyKeyTTL)
}
