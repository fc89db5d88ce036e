package sessions_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// answering answers a client of a handler over real sockets.
func answering(t *testing.T, config sessions.Config, handle http.HandlerFunc) *sessions.Client {
	t.Helper()
	server := httptest.NewServer(handle)
	config.BaseURL = server.URL
	client := newClient(t, config)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	yes := true
	cases := []struct {
		want, body string // method and URI; request body
		status     int
		answer     string
		call       func(ctx context.Context, c *sessions.Client) (any, error)
		check      func(t *testing.T, got any)
	}{
		{want: "POST /v1/sessions", body: `{"session_key":"k","title":"a<b"}`, status: 201, answer: `{"id":"s"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.CreateSession(ctx, sessions.NewSession{SessionKey: "k", Title: "a<b"})
			}, check: func(t *testing.T, got any) { require.True(t, got.(sessions.CreatedSession).New) }},
		{want: "POST /v1/sessions", body: `{"e2e":true}`, status: 200, answer: `{"id":"s","e2e":true}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.CreateSession(ctx, sessions.NewSession{E2E: true})
			}, check: func(t *testing.T, got any) { require.False(t, got.(sessions.CreatedSession).New) }},
		{want: "GET /v1/sessions?archived=1&limit=7&v=2", answer: `{"sessions":[{"id":"s","role":"viewer","presence_count":2}]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.ListSessions(ctx, sessions.ListOptions{Limit: 7, Archived: true})
			}, check: func(t *testing.T, got any) { require.Equal(t, 2, got.([]wire.ListedSession)[0].PresenceCount) }},
		{want: "GET /v1/sessions/shared-with-me?archived=1", answer: `{"sessions":[{"id":"s","share_id":"x"}]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.SharedWithMe(ctx, true) },
			check: func(t *testing.T, got any) { require.Equal(t, "x", got.([]wire.SharedSession)[0].ShareID) }},
		{want: "GET /v1/sessions/a%2Fb%20%3F?v=2", answer: `{"id":"s","role":"owner","lease":null,"members":[],"presence":[]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.GetSession(ctx, "a/b ?") },
			check: func(t *testing.T, got any) { require.Equal(t, wire.RoleOwner, got.(wire.SessionDetail).Role) }},
		{want: "PATCH /v1/sessions/s", body: `{"archived":true,"title":null}`, answer: `{"id":"s"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.PatchSession(ctx, "s", sessions.SessionPatch{ClearTitle: true, Archived: &yes})
			}},
		{want: "PATCH /v1/sessions/s", body: `{"title":"t"}`, answer: `{"id":"s"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.PatchSession(ctx, "s", sessions.SessionPatch{Title: new("t")})
			}},
		{want: "GET /v1/sessions/s/pushes", answer: `{"pushes":[{"id":"p","type":"ask","seq":4,"state":"skipped","reason":"attention"}]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) { return c.Pushes(ctx, "s") },
			check: func(t *testing.T, got any) {
				require.Equal(t, []wire.Push{{ID: "p", Type: wire.PushAsk, Seq: new(int64(4)), State: wire.PushSkipped, Reason: wire.PushAttention}}, got)
			}},
		{want: "PUT /v1/sessions/s/notify", body: `{"notify":"asks"}`, answer: `{"session_id":"s","notify":"asks"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.SetNotify(ctx, "s", wire.NotifyAsks)
			},
			check: func(t *testing.T, got any) { require.Equal(t, wire.NotifySetting{SessionID: "s", Notify: "asks"}, got) }},
		{want: "DELETE /v1/sessions/s", answer: `{"deleted":true,"id":"s"}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.DeleteSession(ctx, "s") },
			check: func(t *testing.T, got any) { require.Equal(t, sessions.Deleted{Deleted: true, ID: "s"}, got) }},
		{want: "GET /v1/sessions/s/events?after=3&limit=9", answer: `{"last_seq":4,"events":[{"seq":4,"payload":{"n":1e400}}]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.Events(ctx, "s", sessions.EventsQuery{After: 3, Limit: 9})
			}, check: func(t *testing.T, got any) {
				require.Equal(t, `{"n":1e400}`, string(got.(sessions.EventsPage).Events[0].Payload))
			}},
		{want: "GET /v1/sessions/s/events?before=3&tail=2", answer: `{"last_seq":4,"events":[]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.Events(ctx, "s", sessions.EventsQuery{Before: 3, Tail: 2})
			}},
		{want: "POST /v1/sessions/s/events", body: `{"events":[{"kind":"x","payload":{"a":-0,"b":"<"}}],"expected_last_seq":0}`,
			answer: `{"last_seq":1,"accepted":1,"events":[{"client_event_id":null,"seq":1}]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.AppendEvents(ctx, "s", sessions.Append{ExpectedLastSeq: new(int64),
					Events: []wire.IncomingEvent{{Kind: "x", Payload: json.RawMessage(`{"a":-0,"b":"<"}`)}}})
			}, check: func(t *testing.T, got any) { require.Equal(t, 1, got.(wire.Receipt).Accepted) }},
		{want: "GET /v1/sessions/s/controls?after=5&applied=all&target=me", answer: `{"controls":[{"id":"c"}]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.Controls(ctx, "s", sessions.ControlsQuery{Applied: sessions.AppliedAll, Target: sessions.TargetMe, After: 5})
			}, check: func(t *testing.T, got any) { require.Equal(t, "c", got.([]wire.Control)[0].ID) }},
		{want: "POST /v1/sessions/s/control", body: `{"id":"c","kind":"send","text":"hi"}`, status: 202, answer: `{"accepted":true,"seq":3,"duplicate":false}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.SendControl(ctx, "s", wire.IncomingControl{ID: "c", Kind: wire.ControlSend, Text: new("hi")})
			}, check: func(t *testing.T, got any) { require.EqualValues(t, 3, got.(wire.ControlReceipt).Seq) }},
		{want: "POST /v1/sessions/s/control/control:%2Fx/applied", answer: `{"id":"x","applied":true}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return nil, c.MarkApplied(ctx, "s", "control:/x")
			}},
		{want: "POST /v1/sessions/s/dispatch", body: `{"device_id":"d","mode":"open","control_id":"c"}`, status: 202,
			answer: `{"control_id":"c","queued":true,"pushed":false,"push_reason":"no_token"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.Dispatch(ctx, "s", wire.Dispatch{DeviceID: "d", Mode: wire.ModeOpen, ControlID: new("c")})
			}, check: func(t *testing.T, got any) { require.Equal(t, wire.PushNoToken, got.(wire.DispatchReceipt).PushReason) }},
		{want: "GET /v1/devices/me/dispatch?limit=4&wait=30", answer: `{"device_id":"d","sessions":[{"id":"s","controls":[{"id":"c"}]}]}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.Inbox(ctx, sessions.InboxQuery{Limit: 4, Wait: time.Hour})
			}, check: func(t *testing.T, got any) { require.Equal(t, "c", got.(wire.Inbox).Sessions[0].Controls[0].ID) }},
		{want: "POST /v1/sessions/s/lease", body: `{"force":true}`, answer: `{"session_id":"s","device_id":"d","expires_at":"2026-09-13T10:00:00.000Z"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.ClaimLease(ctx, "s", sessions.Claim{Force: true})
			}, check: func(t *testing.T, got any) {
				require.Equal(t, "2026-09-13T10:00:00.000Z", got.(wire.Lease).ExpiresAt.String())
			}},
		{want: "PUT /v1/sessions/s/lease", answer: `{"session_id":"s","device_id":"d","expires_at":"2026-09-13T10:00:00.000Z"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) { return c.HeartbeatLease(ctx, "s") }},
		{want: "DELETE /v1/sessions/s/lease", answer: `{"session_id":"s","released":true}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.ReleaseLease(ctx, "s") },
			check: func(t *testing.T, got any) { require.Equal(t, true, got) }},
		{want: "GET /v1/devices", answer: `{"devices":[{"id":"d","online":true,"lastSeenAt":"2026-09-13T10:00:00.000Z","createdAt":"2026-09-13T10:00:00.000Z"}]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.Devices(ctx) },
			check: func(t *testing.T, got any) { require.True(t, *got.([]wire.Device)[0].Online) }},
		{want: "PATCH /v1/devices/d", body: `{"capabilities":[],"push_token":null}`, answer: `{"id":"d"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.PatchDevice(ctx, "d", sessions.DevicePatch{ClearPushToken: true, Capabilities: new([]string)})
			}},
		{want: "DELETE /v1/devices/d", answer: `{"deleted":true,"id":"d"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) { return c.DeleteDevice(ctx, "d") }},
		{want: "GET /v1/sessions/s/shares", answer: `{"shares":[{"id":"x"}]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.Shares(ctx, "s") },
			check: func(t *testing.T, got any) { require.Equal(t, "x", got.([]wire.Share)[0].ID) }},
		{want: "POST /v1/sessions/s/shares", body: `{"principal_type":"link","role":"editor"}`, status: 201, answer: `{"id":"x","token":"secret"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.AddShare(ctx, "s", sessions.NewShare{PrincipalType: wire.PrincipalLink, Role: wire.RoleEditor})
			}, check: func(t *testing.T, got any) { require.Equal(t, "secret", got.(wire.Share).Token) }},
		{want: "DELETE /v1/sessions/s/shares/x", answer: `{"deleted":true,"id":"x"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) { return c.RemoveShare(ctx, "s", "x") }},
		{want: "GET /v1/orgs", answer: `{"orgs":[{"id":"o","role":"owner"}]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.Orgs(ctx) },
			check: func(t *testing.T, got any) { require.Equal(t, wire.OrgOwner, got.([]wire.Org)[0].Role) }},
		{want: "POST /v1/orgs", body: `{"name":"n"}`, status: 201, answer: `{"id":"o"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) { return c.CreateOrg(ctx, "n") }},
		{want: "GET /v1/orgs/o/members", answer: `{"org_id":"o","members":[{"user_id":"u"}]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.OrgMembers(ctx, "o") },
			check: func(t *testing.T, got any) { require.Equal(t, "u", got.([]wire.Membership)[0].UserID) }},
		{want: "POST /v1/orgs/o/members", body: `{"email":"a@b","role":"admin"}`, status: 201, answer: `{"org_id":"o","user_id":"u","role":"admin"}`,
			call: func(ctx context.Context, c *sessions.Client) (any, error) {
				return c.AddOrgMember(ctx, "o", sessions.NewMember{Email: "a@b", Role: wire.OrgAdmin})
			}, check: func(t *testing.T, got any) { require.Equal(t, "u", got.(sessions.AddedMember).UserID) }},
		{want: "DELETE /v1/orgs/o/members/u", answer: `{"deleted":true,"org_id":"o","user_id":"u"}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.RemoveOrgMember(ctx, "o", "u") },
			check: func(t *testing.T, got any) { require.True(t, got.(sessions.RemovedMember).Deleted) }},
		{want: "GET /v1/audit?session_id=s", answer: `{"audit":[{"id":"a","detail":{}}]}`,
			call:  func(ctx context.Context, c *sessions.Client) (any, error) { return c.Audit(ctx, "s") },
			check: func(t *testing.T, got any) { require.Equal(t, "a", got.([]wire.AuditEntry)[0].ID) }},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			client := answering(t, sessions.Config{}, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.Method+" "+r.URL.RequestURI() != c.want || string(body) != c.body ||
					r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get(wire.HeaderDevice) != mine {
					refuse(w, 400, "bad_request", r.Method+" "+r.URL.RequestURI()+" "+string(body))
					return
				}
				w.WriteHeader(max(c.status, 200))
				_, _ = io.WriteString(w, c.answer)
			})
			got, err := c.call(t.Context(), client)
			require.NoError(t, err)
			if c.check != nil {
				c.check(t, got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	client := answering(t, sessions.Config{Attempts: 1}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.HeaderTrace, "trace-1")
		if r.Method == http.MethodPut {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>secret proxy page")
			return
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":{"message":"Held. (holder_device_id=`+other+`)","type":"invalid_request_error","code":"lease_held"}}`)
	})
	_, err := client.ClaimLease(t.Context(), "s", sessions.Claim{})
	require.True(t, sessions.IsCode(err, code.LeaseHeld))
	refused := sessions.AsAPIError(err)
	require.Equal(t, other, refused.HolderDeviceID())
	require.Equal(t, "trace-1", refused.TraceID)
	require.Equal(t, 409, refused.Status)
	_, err = client.HeartbeatLease(t.Context(), "s")
	require.Equal(t, 3*time.Second, sessions.AsAPIError(err).RetryAfter)
	require.NotContains(t, err.Error(), "secret")
	for _, ref := range []func() error{
		func() error { _, err := client.GetSession(t.Context(), ""); return err },
		func() error { return client.MarkApplied(t.Context(), "s", "") },
	} {
		require.ErrorIs(t, ref(), sessions.ErrEmptyReference)
	}
}

func TestIdempotentRetry(t *testing.T) {
	t.Parallel()
	t.Run("SS-CON-2 one intention keeps its control id on every retry", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var ids []string
			tries := 0
			client := newClient(t, sessions.Config{BaseURL: "http://fake.test", HTTP: &http.Client{Transport: memory{http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					var control wire.IncomingControl
					_ = json.NewDecoder(r.Body).Decode(&control)
					ids = append(ids, control.ID)
					switch tries++; tries {
					case 1:
						panic(http.ErrAbortHandler)
					case 2:
						refuse(w, 503, "unavailable", "later")
					default:
						reply(w, 200, wire.ControlReceipt{Accepted: true, Seq: 4, Duplicate: true})
					}
				})}}})
			receipt, err := client.SendControl(t.Context(), "s", wire.IncomingControl{Kind: wire.ControlPause})
			require.NoError(t, err)
			require.True(t, receipt.Duplicate)
			require.Len(t, ids, 3)
			require.NotEmpty(t, ids[0])
			require.Equal(t, ids[0], ids[1])
			require.Equal(t, ids[0], ids[2])
		})
	})
	t.Run("SS-CON-4 a dispatch brings its own control id to the retry, and queued is success", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex // guards ids
		var ids []string
		client := answering(t, sessions.Config{}, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			var dispatch wire.Dispatch
			_ = json.NewDecoder(r.Body).Decode(&dispatch)
			if ids = append(ids, *dispatch.ControlID); len(ids) == 1 {
				panic(http.ErrAbortHandler)
			}
			reply(w, 202, wire.DispatchReceipt{ControlID: *dispatch.ControlID, Queued: true, PushReason: wire.PushNetworkError})
		})
		receipt, err := client.Dispatch(t.Context(), "s", wire.Dispatch{DeviceID: other, Text: new("go")})
		require.NoError(t, err)
		require.True(t, receipt.Queued)
		require.False(t, receipt.Pushed)
		require.Equal(t, []string{receipt.ControlID, receipt.ControlID}, ids)
	})
	t.Run("429 waits as long as it is asked", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			f := newFake()
			f.before = func(w http.ResponseWriter, _ *http.Request) bool {
				tries++
				w.Header().Set("Retry-After", "20")
				if tries == 1 {
					refuse(w, 429, "rate_limit_exceeded", "slow down")
				}
				return tries == 1
			}
			start := time.Now()
			_, err := f.inMemory(t).GetSession(t.Context(), sessionID)
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), 20*time.Second)
		})
	})
	t.Run("a refusal and an append are never repeated", func(t *testing.T) {
		t.Parallel()
		var requests atomic.Int64
		client := answering(t, sessions.Config{}, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if r.Method == http.MethodGet {
				refuse(w, 403, "not_a_member", "no")
				return
			}
			refuse(w, 500, "internal_error", "no")
		})
		_, err := client.GetSession(t.Context(), "s")
		require.True(t, sessions.IsCode(err, code.NotAMember))
		_, err = client.AppendEvents(t.Context(), "s", sessions.Append{})
		require.True(t, sessions.IsCode(err, code.InternalError))
		require.EqualValues(t, 2, requests.Load())
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	client := answering(t, sessions.Config{MaxResponseBytes: 600}, func(w http.ResponseWriter, r *http.Request) {
		after, limit := number(r, "after"), number(r, "limit")
		page := sessions.EventsPage{LastSeq: 20, Events: []wire.Event{}}
		for seq := after + 1; seq <= 20 && len(page.Events) < limit; seq++ {
			page.Events = append(page.Events, wire.Event{Seq: int64(seq), Payload: json.RawMessage(`{"x":"xxxxxxxxxxxxxxx"}`)})
		}
		reply(w, 200, page)
	})
	_, err := client.Events(t.Context(), "s", sessions.EventsQuery{Limit: 20})
	require.ErrorIs(t, err, sessions.ErrResponseTooLarge)
	var seqs []int64
	for event, err := range client.AllEvents(t.Context(), "s", 3) {
		require.NoError(t, err)
		seqs = append(seqs, event.Seq)
	}
	require.Len(t, seqs, 17)
	require.EqualValues(t, 4, seqs[0])
	require.EqualValues(t, 20, seqs[16])
}

func number(r *http.Request, name string) int {
	value := 0
	_ = json.Unmarshal([]byte(r.URL.Query().Get(name)), &value)
	return value
}

func TestKeyStaysHome(t *testing.T) {
	t.Parallel()
	t.Run("SS-CON-1 a redirect to another origin never gets the key", func(t *testing.T) {
		t.Parallel()
		var asked atomic.Int64
		foreign := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		t.Cleanup(foreign.Close)
		client := answering(t, sessions.Config{ShareToken: "share"}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, foreign.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		_, err := client.GetSession(t.Context(), "s")
		require.ErrorIs(t, err, sessions.ErrForeignRedirect)
		for _, transport := range []sessions.Transport{sessions.SSE, sessions.WebSocket} {
			err = client.View("s", sessions.ViewOptions{Transport: transport}).Run(t.Context(), func(sessions.Frame) error { return nil })
			require.ErrorIs(t, err, sessions.ErrForeignRedirect)
		}
		require.Zero(t, asked.Load())
	})
	t.Run("SS-CON-1 the key is in no URL, trace or error", func(t *testing.T) {
		t.Parallel()
		var traced []sessions.RequestTrace
		config := sessions.Config{Attempts: 1, ShareToken: "share-secret", Trace: func(r sessions.RequestTrace) { traced = append(traced, r) }}
		client := answering(t, config, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.String(), key) || r.Header.Get(wire.HeaderShareToken) != "share-secret" {
				refuse(w, 400, "bad_request", "key in the URL, or no share token")
				return
			}
			w.Header().Set(wire.HeaderTrace, "t1")
			panic(http.ErrAbortHandler)
		})
		_, err := client.GetSession(t.Context(), "s")
		require.Error(t, err)
		require.Len(t, traced, 1)
		require.Equal(t, "/v1/sessions/s", traced[0].Path)
		for _, shown := range []string{err.Error(), encoded(traced[0].Path), traced[0].Err.Error()} {
			require.NotContains(t, shown, key)
			require.NotContains(t, shown, "share-secret")
		}
	})
	t.Run("configuration", func(t *testing.T) {
		t.Parallel()
		for _, base := range []string{"", "ftp://x", "http://", "http://u:p@x", "http://x?key=" + key, "http://x#a", "http://x\x00" + key} {
			_, err := sessions.New(sessions.Config{BaseURL: base, Key: key})
			require.Error(t, err)
			require.NotContains(t, err.Error(), key)
		}
		_, err := sessions.New(sessions.Config{BaseURL: "http://x", Key: "a b"})
		require.Error(t, err)
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	client := answering(t, sessions.Config{}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	})
	answer, err := client.Do(t.Context(), http.MethodPost, "/v1/new", map[string][]string{"a": {"b c"}}, json.RawMessage(`[1]`))
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.Status)
	require.Equal(t, "POST /v1/new?a=b+c [1]", string(answer.Body))
	_, err = client.Do(t.Context(), http.MethodPost, "/v1/new", nil, json.RawMessage(`{`))
	require.Error(t, err, "not sent")
}
