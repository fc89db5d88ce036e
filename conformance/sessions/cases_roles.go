package sessions

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func roleCases() []testCase {
	made := []testCase{
		{rule: "SS-ROLE-1", name: "an owner share gives everything but ownership", run: caseOwnerShare},
		{rule: "SS-ROLE-1", name: "a lease for a device that is not the owning user's is forbidden", run: caseForeignLease},
		{rule: "SS-ROLE-3", name: "the highest of several shares counts", run: caseHighestRole},
		{rule: "SS-ROLE-3", name: "an expired share counts for nothing", run: caseExpiredShare},
	}
	for _, p := range parts() {
		made = append(made, testCase{rule: "SS-ROLE-3", name: "what may be done by " + p.name, run: func(t *trial) { caseMatrix(t, p) }})
	}
	return made
}

// part is a way to stand towards a session.
type part struct {
	name string
	role wire.Role
	take func(r *room) *caller
}

func parts() []part {
	return []part{
		{"nobody", wire.RoleNone, func(r *room) *caller { return r.t.stranger() }},
		{"a viewer by direct share", wire.RoleViewer, (*room).viewer},
		{"an editor by direct share", wire.RoleEditor, (*room).editor},
		{"a viewer by link", wire.RoleViewer, func(r *room) *caller { return r.link(r.t.stranger(), wire.RoleViewer) }},
		{"an editor by link", wire.RoleEditor, func(r *room) *caller { return r.link(r.t.stranger(), wire.RoleEditor) }},
		{"a viewer by organisation", wire.RoleViewer, func(r *room) *caller { u := r.t.viewer(); r.org(u, wire.RoleViewer); return u }},
		{"an editor by organisation", wire.RoleEditor, func(r *room) *caller { u := r.t.viewer(); r.org(u, wire.RoleEditor); return u }},
		{"the owner on another device", wire.RoleOwner, func(r *room) *caller { return r.owner.anotherDevice() }},
	}
}

// caseMatrix asks every action of the table as one part; another device holds the lease.
func caseMatrix(t *trial, p part) {
	r := t.room().executed()
	u := p.take(r)
	pending, _ := r.control(r.owner, wire.ControlSend)
	needs := func(role wire.Role, status int, a *answer) {
		if p.role.Rank() < role.Rank() {
			a.refused(code.NotAMember)
			return
		}
		require.Equal(t, status, a.status, "%s", a)
	}
	for _, path := range []string{"", "/events", "/controls"} {
		needs(wire.RoleViewer, http.StatusOK, u.get(r.path(path)))
	}
	needs(wire.RoleViewer, http.StatusOK, u.opens(r.path("/stream")))
	needs(wire.RoleViewer, http.StatusSwitchingProtocols, u.opensSocket(r.path("/ws")))
	needs(wire.RoleEditor, http.StatusAccepted, u.post(r.path("/control"), object{"id": newID(), "kind": "send"}))
	needs(wire.RoleEditor, http.StatusAccepted, r.dispatch(u, r.owner.device, nil))
	for _, a := range []*answer{u.post(r.path("/events"), object{"events": batch(1)}), r.applied(u, pending)} {
		if p.role == wire.RoleNone {
			a.refused(code.NotAMember)
		} else {
			a.refused(code.LeaseHeld) // lease holder only
		}
	}
	needs(wire.RoleOwner, http.StatusConflict, u.post(r.path("/lease"), nil))
	needs(wire.RoleOwner, http.StatusConflict, u.put(r.path("/lease")))
	needs(wire.RoleOwner, http.StatusOK, u.delete(r.path("/lease")))
	needs(wire.RoleOwner, http.StatusOK, u.get(r.path("/shares")))
	needs(wire.RoleOwner, http.StatusCreated, u.post(r.path("/shares"), object{"principal_type": "link"}))
	needs(wire.RoleOwner, http.StatusNotFound, u.delete(r.path("/shares/"+newID())))
	needs(wire.RoleOwner, http.StatusOK, u.patch(r.path(""), object{"title": "x"}))
	needs(wire.RoleOwner, http.StatusOK, u.delete(r.path("")))
}

// opens answers how a stream was answered, and hangs up.
func (u *caller) opens(path string) *answer {
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	response := u.requestSSE(ctx, path, u.t.suite.client)
	defer response.Body.Close() //nolint:errcheck // only the status counts
	a := &answer{t: u.t, request: "GET " + path, status: response.StatusCode, header: response.Header}
	if a.status != http.StatusOK {
		return u.refusedSSE(path)
	}
	return a
}

func (u *caller) opensSocket(path string) *answer {
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	connection, response, err := u.dial(ctx, path, &websocket.DialOptions{HTTPHeader: u.header()})
	if err != nil {
		return u.refusedSocket(path)
	}
	connection.CloseNow() //nolint:errcheck // only the status counts
	return &answer{t: u.t, request: "GET " + path, status: response.StatusCode, header: response.Header}
}

func caseOwnerShare(t *trial) {
	r := t.room()
	friend := t.editor()
	r.shareWith(friend, wire.RoleOwner)
	var patched wire.Session
	friend.patch(r.path(""), object{"title": "by a friend"}).want(200).into(&patched)
	require.Equal(t, r.owner.userID, patched.OwnerUserID)
	friend.get(r.path("/shares")).want(200)
	var share wire.Share
	friend.post(r.path("/shares"), object{"principal_type": "user", "principal_id": t.suite.viewer.userID}).want(201).into(&share)
	require.Equal(t, friend.userID, share.CreatedByUserID)
	friend.delete(r.path("/shares/" + share.ID)).want(200)
	detail := r.detail(friend)
	require.Equal(t, wire.RoleOwner, detail.Role)
	require.Equal(t, r.owner.userID, detail.OwnerUserID)
	friend.delete(r.path("")).want(200)
	r.owner.get(r.path("")).refused(code.NotFound)
}

func caseForeignLease(t *trial) {
	r := t.room()
	friend := t.editor()
	r.shareWith(friend, wire.RoleOwner)
	friend.post(r.path("/lease"), nil).refused(code.Forbidden)
	friend.post(r.path("/lease"), object{"force": true}).refused(code.Forbidden)
	r.owner.post(r.path("/lease"), object{"device_id": friend.device}).refused(code.Forbidden)
	require.Nil(t, r.detail(r.owner).Lease)
	var lease wire.Lease
	friend.post(r.path("/lease"), object{"device_id": r.owner.device}).want(200).into(&lease)
	require.Equal(t, r.owner.device, lease.DeviceID)
}

func caseHighestRole(t *trial) {
	r := t.room()
	u := r.viewer()
	require.Equal(t, wire.RoleViewer, r.detail(u).Role)
	linked := r.link(u, wire.RoleEditor)
	require.Equal(t, wire.RoleEditor, r.detail(linked).Role)
	require.Equal(t, wire.RoleViewer, r.detail(u).Role, "a link counts only while it is presented")
	r.org(u, wire.RoleOwner)
	require.Equal(t, wire.RoleOwner, r.detail(u).Role)
	require.Equal(t, wire.RoleOwner, r.detail(linked).Role)
}

func caseExpiredShare(t *trial) {
	r := t.room()
	u := t.viewer()
	ends := soon(r.owner.get(r.path("")), 3*time.Second)
	r.share(object{"principal_type": "user", "principal_id": u.userID, "expires_at": ends})
	token := r.share(object{"principal_type": "link", "expires_at": ends}).Token
	visitor := t.stranger().with(wire.HeaderShareToken, token)
	u.get(r.path("")).want(200)
	visitor.get(r.path("")).want(200)
	t.Eventually(patience, "the shares expire", func() bool {
		return u.get(r.path("")).status == 403 && visitor.get(r.path("")).status == 403
	})
	u.get(r.path("/events")).refused(code.NotAMember)
	visitor.get(r.path("/events")).refused(code.NotAMember)
}
