package sessions

import (
	"slices"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func auditCases() []testCase {
	return []testCase{
		{rule: "SS-AUD-1", name: "every mutation of a session leaves one row", ours: true, run: caseAudit},
		{rule: "SS-AUD-1", name: "the owner reads it, also after the session is gone", ours: true, run: caseAuditAfter},
	}
}

// audit reads the rows of a session. The list stands under the one field of the answer.
func (r *room) audit() []wire.AuditEntry {
	a := r.owner.get("/v1/audit?session_id=" + r.session.ID).want(200)
	for name := range members(r.t, a.body) {
		var entries []wire.AuditEntry
		if decode(member(r.t, a.body, name), &entries) == nil {
			return entries
		}
	}
	r.t.Errorf("no list of rows: %s", a)
	r.t.FailNow()
	return nil
}

// leaves counts the rows that act adds.
func (r *room) leaves(rows int, what string, act func()) {
	before := len(r.audit())
	act()
	require.Len(r.t, r.audit(), before+rows, "rows of: %s", what)
}

func caseAudit(t *trial) {
	r := t.room()
	second, editor := r.target(), t.editor()
	r.leaves(0, "creating", func() {})
	require.Len(t, r.audit(), 1, "session create")
	r.leaves(0, "creating again", func() {
		r.owner.post("/v1/sessions", object{"session_key": r.session.SessionKey}).want(200)
	})
	r.leaves(1, "patch", func() { r.owner.patch(r.path(""), object{"title": "x"}).want(200) })
	var share wire.Share
	r.leaves(1, "share add", func() { share = r.shareWith(editor, wire.RoleEditor) })
	body := object{"id": "audited", "kind": "send"}
	r.leaves(1, "control", func() { editor.post(r.path("/control"), body).want(202) })
	r.leaves(0, "the same control", func() { editor.post(r.path("/control"), body).want(200) })
	r.leaves(1, "dispatch", func() { r.dispatch(r.owner, second.device, object{"control_id": "d"}).want(202) })
	r.leaves(0, "the same dispatch", func() { r.dispatch(r.owner, second.device, object{"control_id": "d"}).want(200) })
	r.claim(r.owner)
	r.leaves(1, "lease by force", func() { second.post(r.path("/lease"), object{"force": true}).want(200) })
	r.leaves(1, "release", func() { second.delete(r.path("/lease")).want(200) })
	r.leaves(1, "share remove", func() { r.owner.delete(r.path("/shares/" + share.ID)).want(200) })
	r.leaves(0, "a refused patch", func() { editor.patch(r.path(""), object{"title": "y"}) })
	entries := r.audit()
	force := slices.IndexFunc(entries, func(e wire.AuditEntry) bool { return e.Action == "lease:force" })
	require.GreaterOrEqual(t, force, 0)
	require.Equal(t, second.device, value(entries[force].DeviceID))
	require.Equal(t, r.owner.userID, entries[force].UserID)
	for _, entry := range entries {
		require.Equal(t, r.session.ID, value(entry.SessionID))
		require.NotContains(t, string(entry.Detail), r.owner.key)
	}
}

func caseAuditAfter(t *trial) {
	r := t.room()
	viewer := r.viewer()
	before := len(r.audit())
	for _, u := range []*caller{viewer, t.stranger()} {
		r.showsNoAudit(u)
	}
	r.owner.delete(r.path("")).want(200)
	require.Len(t, r.audit(), before+1, "the row of the deletion outlives the session")
	r.showsNoAudit(viewer)
}

// showsNoAudit ends the case if u sees a row: a refusal and an empty list are both fine.
func (r *room) showsNoAudit(u *caller) {
	a := u.get("/v1/audit?session_id=" + r.session.ID)
	require.Contains(r.t, []int{200, 403, 404}, a.status, "%s", a)
	require.NotContains(r.t, string(a.body), r.owner.userID, "%s", a)
}
