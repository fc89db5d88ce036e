package gateway

import (
	"context"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Events answers what by may receive now of the events behind after, at most limit of them (ES-7.4): the same as a
// catch-up on the gateway. NextCursor is up to where the log was checked. An empty epoch is not compared; a limit that is
// not positive or more than sync.catchup_page_size is that. It is resync_required, with its reason, where a catch-up is not
// possible (ES-7.3).
func (g *Gateway) Events(ctx context.Context, by authz.Caller, after int64, epoch string, limit int) (wire.Events, error) {
	if limit <= 0 || limit > g.Limits.CatchupPageSize {
		limit = g.Limits.CatchupPageSize
	}
	return storage.Read(ctx, g.DB, func(tx storage.Tx) (wire.Events, error) {
		state, err := eventlog.StateOf(tx)
		if err != nil {
			return wire.Events{}, err //nolint:wrapcheck // says it all
		}
		permissions, err := authz.Check(tx, by, action.SelfRead, authz.Resource{})
		if err != nil {
			return wire.Events{}, err //nolint:wrapcheck // a refusal
		}
		if reason := state.Resync(after, canonical(epoch), int64(g.Limits.CatchupMaxEvents)); reason != "" {
			return wire.Events{}, fault.New(code.ResyncRequired, "Load a snapshot.").WithDetails(fault.Extra{
				Reason: string(reason), HeadSeq: state.Head, SyncEpoch: state.SyncEpoch,
			})
		}
		page := wire.Events{Events: []wire.Envelope{}, NextCursor: after, HeadSeq: state.Head, SyncEpoch: state.SyncEpoch}
		if after == state.Head {
			return page, nil
		}
		read, err := readVisible(tx, permissions, after, state.Head, limit)
		if err != nil {
			return wire.Events{}, err
		}
		page.NextCursor = read.checked
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, ev := range read.visible(permissions, &g.places, tx.Now()) {
			page.Events = append(page.Events, shown(&ev.record.Envelope))
		}
		return page, nil
	})
}
