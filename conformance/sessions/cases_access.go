package sessions

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func accessCases() []testCase {
	made := []testCase{
		{rule: "SS-ROLE-2", name: "rights hold at every request", run: caseRequestAfterLoss},
		{rule: "SS-ROLE-2", name: "a lowered role counts on an open socket", run: caseLoweredRole},
	}
	for _, l := range losses() {
		made = slices.Concat(made, bothWays(
			testCase{rule: "SS-ROLE-2", name: l.name + " ends its streams, and no later event is sent", ours: true},
			func(t *trial, o opener) { caseLoss(t, o, l) },
		))
	}
	return made
}

// loss is a way to lose access. take answers who watches, and what takes the access away.
type loss struct {
	name string
	code code.Close
	take func(r *room) (watcher *caller, lose func())
}

func losses() []loss {
	return []loss{
		{"a removed share", code.CloseNoAccess, loseShare},
		{"a removed link", code.CloseNoAccess, loseLink},
		{"an ended membership", code.CloseNoAccess, loseMembership},
		{"an expired share", code.CloseNoAccess, loseByExpiry},
		{"a deleted session", code.CloseNotFound, func(r *room) (*caller, func()) {
			return r.viewer(), func() { r.owner.delete(r.path("")).want(200) }
		}},
		{"a deleted device", code.CloseBadKey, func(r *room) (*caller, func()) {
			u := r.viewer()
			return u, func() { u.on("").delete("/v1/devices/" + u.device).want(200) }
		}},
	}
}

func loseShare(r *room) (*caller, func()) {
	u := r.t.viewer()
	share := r.shareWith(u, wire.RoleViewer)
	return u, func() { r.owner.delete(r.path("/shares/" + share.ID)).want(200) }
}

func loseLink(r *room) (*caller, func()) {
	share := r.share(object{"principal_type": "link"})
	u := r.t.stranger().with(wire.HeaderShareToken, share.Token)
	return u, func() { r.owner.delete(r.path("/shares/" + share.ID)).want(200) }
}

func loseMembership(r *room) (*caller, func()) {
	u := r.t.viewer()
	org := r.org(u, wire.RoleViewer)
	return u, func() { r.owner.delete("/v1/orgs/" + org + "/members/" + u.userID).want(200) }
}

func loseByExpiry(r *room) (*caller, func()) {
	u := r.t.viewer()
	ends := soon(r.owner.get(r.path("")), 3*time.Second)
	r.share(object{"principal_type": "user", "principal_id": u.userID, "expires_at": ends})
	return u, func() {
		r.t.Eventually(patience, "the share expires", func() bool { return u.on("").get(r.path("?v=2")).status == 403 })
	}
}

func caseLoss(t *trial, o opener, l loss) {
	r := t.room().executed()
	watcher, lose := l.take(r)
	stream := o.open(watcher, r, "").live()
	r.append(r.owner, event("seen"))
	stream.next(wire.FrameEvent, eventKind("seen"))
	lose()
	for range 5 { // fails when the session is gone
		r.owner.post(r.path("/events"), object{"events": []object{event("unseen"), event("unseen")}})
	}
	end, rest := stream.ended(promptly)
	require.Equal(t, int(l.code), end.code, "close code; the stream ended with %v", end.err)
	for _, f := range rest {
		require.NotEqual(t, wire.FrameEvent, f.name, "an event after the loss: %s", f.data)
	}
	if o.transport == "SSE" {
		require.NotEmpty(t, rest, "SSE says why it ends")
		last := rest[len(rest)-1]
		require.Equal(t, wire.FrameClosed, last.name, "the last frame")
		requireFields(t, last.data, "closed frame", "v", "code")
	}
}

func caseRequestAfterLoss(t *trial) {
	r := t.room()
	u := t.viewer()
	direct := r.shareWith(u, wire.RoleEditor)
	u.post(r.path("/control"), object{"id": newID(), "kind": "send"}).want(202)
	r.owner.delete(r.path("/shares/" + direct.ID)).want(200)
	u.get(r.path("")).refused(code.NotAMember)
	u.post(r.path("/control"), object{"id": newID(), "kind": "send"}).refused(code.NotAMember)
	org := r.org(u, wire.RoleViewer)
	u.get(r.path("")).want(200)
	r.owner.delete("/v1/orgs/" + org + "/members/" + u.userID).want(200)
	u.get(r.path("")).refused(code.NotAMember)
}

func caseLoweredRole(t *trial) {
	r := t.room()
	u := t.viewer()
	high := r.shareWith(u, wire.RoleEditor)
	r.org(u, wire.RoleViewer)
	socket := openWebSocket(u, r, "").live()
	require.Equal(t, wire.FrameAck, socket.ask(object{"t": "control", "id": newID(), "kind": "send"}).name)
	r.owner.delete(r.path("/shares/" + high.ID)).want(200)
	refusedFrame(t, socket.ask(object{"t": "control", "id": newID(), "kind": "send"}), code.NotAMember)
	_, seq := r.control(r.owner, wire.ControlSend)
	socket.next(wire.FrameEvent, func(f frame) bool { return eventOf(t, f).Seq == seq })
}
