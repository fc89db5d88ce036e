package workspace

import (
	"strconv"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// eventsMost is the largest page of events (workspace specification, section 4).
const eventsMost = 500

func (a *API) syncRoutes() []Route {
	const tag = "sync"
	return []Route{
		{
			Method: get, Path: Prefix + "/events", Action: action.SelfRead, Tag: tag, Summary: "Catch up with the log, as the gateway does (ES-7.4)",
			Query: []Param{
				{Name: "after", Doc: "the cursor: the seq up to which everything was looked through", Kind: Number, Required: true},
				{Name: "epoch", Doc: "the sync_epoch the cursor is of", Kind: ID},
				{Name: "limit", Doc: "how many at most; more than 500 is 500", Kind: Number, Least: 1},
			}, handler: giving(okay, a.events),
		},
		{
			Method: get, Path: Prefix + "/sync/snapshot", Action: action.SelfRead, Tag: tag, Summary: "What a client starts from",
			handler: giving(okay, a.snapshot),
		},
		{
			Method: get, Path: Prefix + "/search", Action: action.SearchRead, Tag: tag,
			Summary: "Messages the caller may read that have these words, the newest first",
			Query:   paged(Param{Name: "q", Doc: "words", Required: true}), handler: giving(okay, a.search),
		},
		{
			Method: get, Path: Prefix + "/audit", Action: action.AuditRead, Tag: tag, Summary: "Who did what, the newest first",
			Query: paged(), handler: giving(okay, a.audit),
		},
	}
}

func (a *API) events(c *call) (wire.Events, error) {
	by := c.signedIn
	by.Caller = c.by
	return a.Gateway.Events(c.Context(), by, c.params.numbers["after"], c.params.texts["epoch"], c.params.limit(eventsMost, eventsMost))
}

func (a *API) snapshot(c *call) (wire.Snapshot, error) {
	return a.Gateway.Snapshot(c.Context(), c.by)
}

func (a *API) search(c *call) (wire.Page[wire.Message], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Message], error) {
		return a.Search.Search(c.Context(), c.by, c.params.texts["q"], p)
	})
}

func (a *API) audit(c *call) (wire.Page[wire.AuditEntry], error) {
	after, err := c.after()
	if err != nil {
		return wire.Page[wire.AuditEntry]{}, err
	}
	var before int64
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before < 1 {
			return wire.Page[wire.AuditEntry]{}, place.BadCursor()
		}
	}
	entries, more, err := a.Authz.Audit(c.Context(), c.by, before, c.limit())
	return pageOf(c, entries, more, func(e wire.AuditEntry) string { return strconv.FormatInt(e.Seq, 10) }), err
}
