package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// waiters are the requests that wait for a device's inbox. One subscription serves them all.
type waiters struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool // by device; guarded by mu
}

func newWaiters(bus signal.Bus) *waiters {
	w := &waiters{waiting: map[string]map[chan struct{}]bool{}}
	bus.Subscribe(w.woken)
	return w
}

func (w *waiters) woken(wake signal.Wake) {
	if wake.Topic != signal.Inbox && wake.Topic != "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for device, channels := range w.waiting {
		if wake.ID != "" && wake.ID != device {
			continue
		}
		for channel := range channels {
			select {
			case channel <- struct{}{}:
			default: // woken already
			}
		}
	}
}

// wait registers a waiter for device; cancel ends it.
func (w *waiters) wait(device string) (woken <-chan struct{}, cancel func()) {
	channel := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[device] == nil {
		w.waiting[device] = map[chan struct{}]bool{}
	}
	w.waiting[device][channel] = true
	return channel, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[device], channel)
		if len(w.waiting[device]) == 0 {
			delete(w.waiting, device)
		}
	}
}

// inboxNow is Inbox for a caller who asked a while ago and must still be known (SS-ROLE-2).
func (s *Service) inboxNow(ctx context.Context, by Caller, limit int) (wire.Inbox, error) {
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.Inbox, error) {
		alive, err := identity.AliveIn(tx, []identity.Credential{by.Credential()})
		if err != nil {
			return wire.Inbox{}, err
		}
		if !alive[0] {
			return wire.Inbox{}, fault.New(code.InvalidAPIKey, "The key, user or device is no longer valid.")
		}
		return inbox(tx, by, limit)
	})
}

// AwaitInbox is Inbox that waits for something to be there, until patience ends (SS-DSP-4). The end
// of patience is no error: the answer is then empty.
func (s *Service) AwaitInbox(ctx, patience context.Context, by Caller, limit int) (wire.Inbox, error) {
	woken, cancel := s.inboxes.wait(by.DeviceID)
	defer cancel()
	poll := time.NewTicker(signal.PollInterval)
	defer poll.Stop()
	for {
		inbox, err := s.inboxNow(ctx, by, limit)
		if err != nil || len(inbox.Sessions) > 0 {
			return inbox, err
		}
		select {
		case <-woken:
		case <-poll.C:
		case <-patience.Done():
			return inbox, nil
		case <-ctx.Done():
			return inbox, fmt.Errorf("wait for the inbox: %w", ctx.Err())
		}
	}
}
