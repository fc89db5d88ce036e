package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// soon is the second that the rules allow, and more for a machine that runs many tests at once.
const soon = 5 * time.Second

// house is the nodes of one database: on PostgreSQL two, which is all it takes to have them share
// sessions; on SQLite one.
type house struct {
	a, b   *servertest.Server
	people *identity.Service // as the command line sees it
}

func newHouse(t *testing.T, db *testkit.Database) *house {
	t.Helper()
	h := &house{a: servertest.Start(t, db, nil), people: commandLine(t, db.URL)}
	h.b = h.a
	if db.Engine == testkit.Postgres {
		h.b = servertest.Start(t, db, nil)
	}
	return h
}

func (h *house) person(t *testing.T) servertest.Account {
	t.Helper()
	return account(t, h.people, "user-"+uuid.NewString())
}

// loss is a way to lose a session that one could see.
type loss struct {
	name string
	code code.Close
	// exact: nothing committed after the loss was acknowledged may arrive. Otherwise within a second.
	exact bool
	// admit lets the guest in, who is on node b, and answers what takes the access away, on node a.
	admit func(t *testing.T, h *house, owner caller, session string, guest *caller, who servertest.Account) func()
}

var losses = []loss{
	{"SS-ROLE-2 a share is removed", code.CloseNoAccess, true,
		func(t *testing.T, _ *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			share := owner.share(t, session, who, wire.RoleEditor)
			return func() {
				owner.want(t, http.StatusOK, http.MethodDelete, "/v1/sessions/"+session+"/shares/"+share.ID, nil)
			}
		}},
	{"SS-ROLE-2 a link is removed", code.CloseNoAccess, true,
		func(t *testing.T, _ *house, owner caller, session string, guest *caller, _ servertest.Account) func() {
			guest.Header = http.Header{wire.HeaderShareToken: {owner.link(t, session, wire.RoleViewer)}}
			var list struct{ Shares []wire.Share }
			require.NoError(t, owner.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+session+"/shares", nil).Into(&list))
			return func() {
				owner.want(t, http.StatusOK, http.MethodDelete, "/v1/sessions/"+session+"/shares/"+list.Shares[0].ID, nil)
			}
		}},
	{"SS-ROLE-2 the membership of an organisation ends", code.CloseNoAccess, true,
		func(t *testing.T, _ *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			var org wire.Org
			require.NoError(t, owner.want(t, http.StatusCreated, http.MethodPost, "/v1/orgs", map[string]string{"name": "crew"}).Into(&org))
			owner.want(t, http.StatusCreated, http.MethodPost, "/v1/orgs/"+org.ID+"/members", map[string]string{"user_id": who.UserID})
			owner.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions/"+session+"/shares",
				map[string]string{"principal_type": "org", "principal_id": org.ID})
			return func() {
				owner.want(t, http.StatusOK, http.MethodDelete, "/v1/orgs/"+org.ID+"/members/"+who.UserID, nil)
			}
		}},
	{"SS-ROLE-2 a share expires", code.CloseNoAccess, true,
		func(t *testing.T, _ *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			expires := time.Now().Add(2 * time.Second)
			owner.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions/"+session+"/shares", map[string]any{
				"principal_type": "user", "principal_id": who.UserID, "expires_at": expires.UTC().Format(wire.TimeLayout),
			})
			return func() { <-time.After(time.Until(expires)) }
		}},
	{"SS-ROLE-2 a share expires while nothing happens", code.CloseNoAccess, false,
		func(t *testing.T, _ *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			expires := time.Now().Add(2 * time.Second)
			owner.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions/"+session+"/shares", map[string]any{
				"principal_type": "user", "principal_id": who.UserID, "expires_at": expires.UTC().Format(wire.TimeLayout),
			})
			return func() { <-time.After(time.Until(expires)) }
		}},
	{"SS-ROLE-2 the session is deleted", code.CloseNotFound, false,
		func(t *testing.T, _ *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			owner.share(t, session, who, wire.RoleViewer)
			return func() { owner.want(t, http.StatusOK, http.MethodDelete, "/v1/sessions/"+session, nil) }
		}},
	{"SS-DVC-1 the device is deleted", code.CloseBadKey, true,
		func(t *testing.T, h *house, owner caller, session string, guest *caller, who servertest.Account) func() {
			owner.share(t, session, who, wire.RoleViewer)
			elsewhere := raw(t, at(h.a), who)
			return func() { elsewhere.want(t, http.StatusOK, http.MethodDelete, "/v1/devices/"+guest.Device, nil) }
		}},
	{"SS-ROLE-2 the key is revoked by the command line", code.CloseBadKey, false,
		func(t *testing.T, h *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			owner.share(t, session, who, wire.RoleViewer)
			keys, err := h.people.ListKeys(t.Context(), who.UserID)
			require.NoError(t, err)
			return func() { require.NoError(t, h.people.RevokeKey(t.Context(), keys[0].ID)) }
		}},
	{"SS-ROLE-2 the user is disabled by the command line", code.CloseBadKey, false,
		func(t *testing.T, h *house, owner caller, session string, _ *caller, who servertest.Account) func() {
			owner.share(t, session, who, wire.RoleViewer)
			return func() { require.NoError(t, h.people.DisableUser(t.Context(), who.UserID)) }
		}},
}

// Whoever loses a session on one node is cut off on every node.
func TestLossOfAccess(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		h := newHouse(t, db)
		for _, lost := range losses {
			for _, transport := range []history.Transport{history.SSE, history.WebSocket} {
				t.Run(fmt.Sprintf("%s, %s", lost.name, transport), func(t *testing.T) {
					t.Parallel()
					lost.check(t, h, transport)
				})
			}
		}
	})
}

func (l loss) check(t *testing.T, h *house, transport history.Transport) {
	t.Helper()
	owner, who := raw(t, at(h.a), h.person(t)), h.person(t)
	guest := raw(t, at(h.b), who)
	session := owner.newSession(t)
	owner.lead(t, session)
	lose := l.admit(t, h, owner, session, &guest, who)
	stream := guest.open(t, transport, session, 0)
	owner.say(t, session, "before")
	stream.await(t, soon, "an event", isEvent(t, "before"))
	lose()
	at := time.Now()
	if l.exact { // expiry is the database's to see, on its own clock: the same machine's here
		owner.say(t, session, "after")
	}
	kinds := stream.ends(t, soon)
	require.NotContains(t, kinds, "after", "committed after the loss")
	require.Equal(t, int(l.code), stream.Code, "%v", stream.Err)
	l.refusedAfter(t, guest, session, at)
}

// refusedAfter demands that requests fail too, within the second.
func (l loss) refusedAfter(t *testing.T, guest caller, session string, at time.Time) {
	t.Helper()
	want := map[code.Close]int{
		code.CloseNoAccess: http.StatusForbidden, code.CloseNotFound: http.StatusNotFound, code.CloseBadKey: http.StatusUnauthorized,
	}[l.code]
	if l.name == "SS-DVC-1 the device is deleted" {
		want = http.StatusOK // its user may register it again (SS-DEV-1)
	}
	answers := func() bool { return guest.do(t, http.MethodGet, "/v1/sessions/"+session, nil).Status == want }
	require.Eventually(t, answers, max(soon-time.Since(at), time.Millisecond), 20*time.Millisecond, "want %d", want)
}

// Losing one of several shares is no loss of access, but it may be one of rights.
func TestAnotherShareStillCounts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		h := newHouse(t, db)
		owner, who := raw(t, at(h.a), h.person(t)), h.person(t)
		guest := raw(t, at(h.b), who)
		session := owner.newSession(t)
		owner.lead(t, session)
		strong := owner.share(t, session, who, wire.RoleEditor)
		owner.share(t, session, who, wire.RoleViewer)
		stream := guest.open(t, history.WebSocket, session, 0)
		steer := func(ref string) history.Frame {
			require.NoError(t, stream.Write(t.Context(), map[string]string{"t": "control", "ref": ref, "id": ref, "kind": "pause"}))
			return stream.await(t, soon, "an answer to "+ref, func(f history.Frame) bool {
				return (f.Name == wire.FrameAck || f.Name == wire.FrameError) && strings.Contains(string(f.Data), `"ref":"`+ref+`"`)
			})
		}
		require.Equal(t, wire.FrameAck, steer("first").Name)
		owner.want(t, http.StatusOK, http.MethodDelete, "/v1/sessions/"+session+"/shares/"+strong.ID, nil)
		t.Run("SS-ROLE-2 an editor that became a viewer steers no more", func(t *testing.T) {
			answer := steer("second")
			require.Equal(t, wire.FrameError, answer.Name)
			require.Contains(t, string(answer.Data), "not_a_member")
		})
		t.Run("SS-ROLE-2 the stream goes on by the other share", func(t *testing.T) {
			owner.say(t, session, "after")
			stream.await(t, soon, "the event", isEvent(t, "after"))
		})
		t.Run("SS-PRS-1 presence shows the role that is left", func(t *testing.T) {
			require.Eventually(t, func() bool {
				var detail wire.SessionDetail
				require.NoError(t, owner.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+session, nil).Into(&detail))
				return len(detail.Presence) == 1 && detail.Presence[0].Role == wire.RoleViewer
			}, 2*soon, 20*time.Millisecond)
		})
	})
}
