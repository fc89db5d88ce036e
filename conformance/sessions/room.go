package sessions

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// room is a fresh session of the owner, removed when the case ends.
type room struct {
	t       *trial
	owner   *caller
	session wire.Session
}

func (t *trial) room() *room { return t.roomWith(object{"session_key": "conformance-" + newID()}) }

func (t *trial) roomWith(body object) *room {
	owner := t.owner()
	r := &room{t: t, owner: owner}
	owner.post("/v1/sessions", body).want(http.StatusCreated).into(&r.session)
	require.NotEmpty(t, r.session.ID)
	t.Cleanup(func() { owner.delete(r.path("")) })
	return r
}

// path answers a path of the session.
func (r *room) path(rest string) string { return "/v1/sessions/" + r.session.ID + rest }

// share gives somebody a role and answers the share.
func (r *room) share(body object) wire.Share {
	var share wire.Share
	r.owner.post(r.path("/shares"), body).want(http.StatusCreated).into(&share)
	return share
}

func (r *room) shareWith(u *caller, role wire.Role) wire.Share {
	return r.share(object{"principal_type": "user", "principal_id": u.userID, "role": role})
}

// editor answers the editor's account on a fresh device, with the role on this session.
func (r *room) editor() *caller {
	u := r.t.editor()
	r.shareWith(u, wire.RoleEditor)
	return u
}

func (r *room) viewer() *caller {
	u := r.t.viewer()
	r.shareWith(u, wire.RoleViewer)
	return u
}

// link answers u presenting a fresh link share of role.
func (r *room) link(u *caller, role wire.Role) *caller {
	share := r.share(object{"principal_type": "link", "role": role})
	return u.with(wire.HeaderShareToken, share.Token)
}

// org answers a fresh organisation of the owner with u as a member, shared at role.
func (r *room) org(u *caller, role wire.Role) string {
	org := r.owner.newOrg()
	r.owner.post("/v1/orgs/"+org+"/members", object{"user_id": u.userID}).want(http.StatusCreated)
	r.share(object{"principal_type": "org", "principal_id": org, "role": role})
	return org
}

func (u *caller) newOrg() string {
	var org wire.Org
	u.post("/v1/orgs", object{"name": "conformance " + newID()}).want(http.StatusCreated).into(&org)
	return org.ID
}

// claim gives u's device the lease.
func (r *room) claim(u *caller) wire.Lease {
	var lease wire.Lease
	u.post(r.path("/lease"), nil).want(http.StatusOK).into(&lease)
	return lease
}

// executed is the room with the lease at the owner's device.
func (r *room) executed() *room {
	r.claim(r.owner)
	return r
}

// event is an event to append, with a client_event_id of its own.
func event(kind string) object { return object{"kind": kind, "client_event_id": newID()} }

func batch(n int) []object {
	events := make([]object, n)
	for i := range events {
		events[i] = event("assistant")
	}
	return events
}

// append stores events as u.
func (r *room) append(u *caller, events ...object) wire.Receipt {
	var receipt wire.Receipt
	u.post(r.path("/events"), object{"events": events}).want(http.StatusOK).into(&receipt)
	return receipt
}

// fill appends n events in batches of the largest size.
func (r *room) fill(n int) {
	for n > 0 {
		size := min(n, wire.MaxBatch)
		r.append(r.owner, batch(size)...)
		n -= size
	}
}

// events reads the log with a query.
func (r *room) events(query string) []wire.Event {
	var read struct{ Events []wire.Event }
	r.owner.get(r.path("/events" + query)).want(http.StatusOK).into(&read)
	return read.Events
}

// all reads the whole log, page by page, and checks that it is dense from 1.
func (r *room) all() []wire.Event {
	var all []wire.Event
	for {
		page := r.events(fmt.Sprintf("?after=%d&limit=1000", len(all)))
		all = append(all, page...)
		requireDense(r.t, 1, all)
		if len(page) < 1000 {
			return all
		}
	}
}

// control posts a fresh control as u and answers its id and seq.
func (r *room) control(u *caller, kind wire.ControlKind) (string, int64) {
	id := "ctl-" + newID()
	var receipt wire.ControlReceipt
	u.post(r.path("/control"), object{"id": id, "kind": kind, "text": "hello"}).want(http.StatusAccepted).into(&receipt)
	return id, receipt.Seq
}

// controls lists with a query.
func (r *room) controls(query string) []wire.Control {
	var read struct{ Controls []wire.Control }
	r.owner.get(r.path("/controls" + query)).want(http.StatusOK).into(&read)
	return read.Controls
}

func (r *room) applied(u *caller, id string) *answer {
	return u.post(r.path("/control/"+segment(id)+"/applied"), nil)
}

// dispatch asks u's text to be run by device.
func (r *room) dispatch(u *caller, device string, more object) *answer {
	body := object{"device_id": device, "text": "go"}
	maps.Copy(body, more)
	return u.post(r.path("/dispatch"), body)
}

// detail reads the session as u.
func (r *room) detail(u *caller) wire.SessionDetail {
	var detail wire.SessionDetail
	u.get(r.path("")).want(http.StatusOK).into(&detail)
	return detail
}

// ids answers the ids of controls in order.
func ids(controls []wire.Control) []string {
	all := make([]string, 0, len(controls))
	for _, control := range controls {
		all = append(all, control.ID)
	}
	return all
}

// runes is text of n code points that are neither one byte nor one UTF-16 unit long.
func runes(n int) string { return strings.Repeat("\U0001D11E", n) }
