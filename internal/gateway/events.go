package gateway

import (
	"context"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Events answers what by may receive now of the events behind after, at most limit of them (ES-7.4): the same as a
// catch-up on the gateway. NextCursor is up to where the log was checked. An empty epoch is not compared; a limit that is
// not positive or more than sync.catchup_page_size is that. It is resync_required, with its reason, where a catch-up is not
// possible (ES-7.3). The scopes of an API token bind what it receives.
func (g *Gateway) Events(ctx context.Context, by signin.Caller, after int64, epoch string, limit int) (wire.Events, error) {
	if limit <= 0 || limit > g.Limits.CatchupPageSize {
		limit = g.Limits.CatchupPageSize
	}
	page, err := storage.Read(ctx, g.DB, func(tx storage.Tx) (eventsPage, error) { return g.readEvents(tx, by.Caller, after, epoch, limit) })
	if err != nil {
		return wire.Events{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ev := range page.read.visible(page.permissions, hearingOf(by.Scopes), &g.places, page.now) {
		envelope := ev.record.Envelope
		if by.Kind == wire.KindUser {
			envelope.TraceContext = "" // only for agents (ES-2.2)
		}
		page.answer.Events = append(page.answer.Events, envelope)
	}
	return page.answer, nil
}

// eventsPage is a page that was read, before its events are looked at one by one: nobody waits for the gateway with a
// transaction in hand.
type eventsPage struct {
	answer      wire.Events
	read        readEvents
	permissions *authz.Snapshot
	now         time.Time
}

func (g *Gateway) readEvents(tx storage.Tx, by authz.Caller, after int64, epoch string, limit int) (eventsPage, error) {
	state, err := eventlog.StateOf(tx)
	if err != nil {
		return eventsPage{}, err
	}
	permissions, err := authz.Check(tx, by, action.SelfRead, authz.Resource{})
	if err != nil {
		return eventsPage{}, err
	}
	if reason := state.Resync(after, canonical(epoch), int64(g.Limits.CatchupMaxEvents)); reason != "" {
		return eventsPage{}, fault.New(code.ResyncRequired, "Load a snapshot.").WithDetails(fault.Extra{
			Reason: string(reason), HeadSeq: state.Head, SyncEpoch: state.SyncEpoch,
		})
	}
	page := eventsPage{permissions: permissions, now: tx.Now(), answer: wire.Events{
		Events: []wire.Envelope{}, NextCursor: after, HeadSeq: state.Head, SyncEpoch: state.SyncEpoch,
	}}
	if after == state.Head {
		return page, nil
	}
	page.read, err = readVisible(tx, permissions, after, state.Head, limit)
	page.answer.NextCursor = page.read.checked
	return page, err
}
