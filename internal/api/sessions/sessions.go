package sessions

import (
	"context"
	"net/http"
	"strconv"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/session"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func (a *API) createSession(c *call) (reply, error) {
	in := session.NewSession{Title: c.form.text("title", 0, wire.MaxTitle)}
	if key := c.form.text("session_key", 1, wire.MaxSessionKey); key != nil {
		in.SessionKey = *key
	}
	if e2e := c.form.flag("e2e"); e2e != nil {
		in.E2E = *e2e
	}
	switch in.SessionKey {
	case ".", "..", "shared-with-me": // they would not survive in a path (SS-REF-1)
		c.form.badf("session_key", "must not be %q", in.SessionKey)
	default:
	}
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	created, isNew, err := a.Sessions.Create(c.Context(), c.by, in)
	if isNew {
		return reply{status: http.StatusCreated, body: created}, err
	}
	return ok(created), err
}

func (a *API) listSessions(c *call) (reply, error) {
	limit := c.number("limit", session.DefaultList, 1, session.MaxList)
	list, err := a.Sessions.List(c.Context(), c.by, int(limit), c.flag("archived"))
	return ok(map[string]any{"sessions": list}), err
}

func (a *API) sharedWithMe(c *call) (reply, error) {
	list, err := a.Sessions.SharedWithMe(c.Context(), c.by, c.flag("archived"))
	return ok(map[string]any{"sessions": list}), err
}

func (a *API) getSession(c *call) (reply, error) {
	detail, err := a.Sessions.Detail(c.Context(), c.by, c.PathValue("id"))
	return ok(detail), err
}

func (a *API) patchSession(c *call) (reply, error) {
	patch := session.Patch{
		SetTitle: c.form.has("title"), Title: c.form.text("title", 0, wire.MaxTitle), Archived: c.form.flag("archived"),
	}
	if !patch.SetTitle && !c.form.has("archived") {
		c.form.badf("title", "or archived is required")
	}
	if c.form.has("archived") && patch.Archived == nil {
		c.form.badf("archived", "must be true or false")
	}
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	changed, err := a.Sessions.Update(c.Context(), c.by, c.PathValue("id"), patch)
	return ok(changed), err
}

func (a *API) deleteSession(c *call) (reply, error) {
	id, err := a.Sessions.Delete(c.Context(), c.by, c.PathValue("id"))
	return ok(deletion{Deleted: true, ID: id}), err
}

type deletion struct {
	Deleted bool   `json:"deleted"`
	ID      string `json:"id"`
}

func (a *API) listEvents(c *call) (reply, error) {
	page, err := a.Sessions.Events(c.Context(), c.by, c.PathValue("id"), session.Window{
		After:  c.number("after", 0, 0, largestInteger),
		Before: c.number("before", 0, 1, largestInteger),
		Tail:   c.number("tail", 0, 1, session.MaxPage),
		Limit:  int(c.number("limit", session.DefaultPage, 1, session.MaxPage)),
	})
	if err != nil {
		return reply{}, err
	}
	raw := append([]byte(`{"last_seq":`), strconv.FormatInt(page.LastSeq, 10)...)
	raw = append(raw, `,"events":[`...)
	for i := range page.Events {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = session.AppendEvent(raw, &page.Events[i])
	}
	return reply{status: http.StatusOK, raw: append(raw, "]}"...)}, nil
}

func (a *API) appendEvents(c *call) (reply, error) {
	receipt, err := a.append(c.Context(), c.by, c.PathValue("id"), c.form)
	return ok(receipt), err
}

func (a *API) append(ctx context.Context, by session.Caller, ref string, f *form) (wire.Receipt, error) {
	batch := f.batch()
	if err := f.err(); err != nil {
		return wire.Receipt{}, err
	}
	return a.Sessions.Append(ctx, by, ref, batch)
}

func (a *API) claimLease(c *call) (reply, error) {
	device, force := c.by.DeviceID, false
	if id := c.form.id("device_id"); id != nil {
		device = *id
	}
	if forced := c.form.flag("force"); forced != nil {
		force = *forced
	}
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	lease, err := a.Sessions.ClaimLease(c.Context(), c.by, c.PathValue("id"), device, force)
	return ok(lease), err
}

func (a *API) renewLease(c *call) (reply, error) {
	lease, err := a.Sessions.RenewLease(c.Context(), c.by, c.PathValue("id"))
	return ok(lease), err
}

func (a *API) releaseLease(c *call) (reply, error) {
	release, err := a.Sessions.ReleaseLease(c.Context(), c.by, c.PathValue("id"))
	return ok(release), err
}

func (a *API) audit(c *call) (reply, error) {
	sessionID := c.URL.Query().Get("session_id")
	if sessionID == "" {
		return reply{}, fault.BadField("session_id", "is required")
	}
	id, _ := env.ParseID(sessionID) // what is no UUID names no session
	before, _ := env.ParseID(c.URL.Query().Get("before"))
	entries, err := a.Sessions.Audit(c.Context(), c.by, id, before)
	return ok(map[string]any{"audit": entries}), err
}
