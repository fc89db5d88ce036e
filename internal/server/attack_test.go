package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// theatre is a session with an executor, and a guest with a share on it.
type theatre struct {
	node         *servertest.Server
	owner, guest caller
	session      string
	share        wire.Share
}

func newTheatre(t *testing.T, db *testkit.Database) *theatre {
	t.Helper()
	// Small queues, so that little is under way to a viewer that does not read.
	node := servertest.Start(t, db, func(c *config.Config) { c.Stream.QueueFrames, c.Stream.QueueBytes = 16, 64<<10 })
	guest := node.Account(t, "guest")
	s := &theatre{node: node, owner: raw(t, at(node), node.Account(t, "owner")), guest: raw(t, at(node), guest)}
	s.session = s.owner.newSession(t)
	s.owner.lead(t, s.session)
	s.guest.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil) // registers the device
	s.share = s.owner.share(t, s.session, guest, wire.RoleViewer)
	return s
}

func (s *theatre) path(rest string) string { return "/v1/sessions/" + s.session + rest }

// fill appends events whose payloads have a size.
func (s *theatre) fill(t *testing.T, events, size int) {
	t.Helper()
	for range events {
		s.owner.lead(t, s.session) // on a slow machine all of it outlasts a term
		s.owner.want(t, http.StatusOK, http.MethodPost, s.path("/events"), map[string]any{"events": []map[string]any{{
			"kind": "large", "client_event_id": uuid.NewString(), "payload": map[string]string{"text": strings.Repeat("a", size)},
		}}})
	}
}

func (s *theatre) request(t *testing.T, method, path string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.node.URL+path, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+s.guest.Key)
	request.Header.Set(wire.HeaderDevice, s.guest.Device)
	response, err := s.guest.HTTP.Do(request)
	require.NoError(t, err)
	return response
}

func TestLossOfAccessWhileReplaying(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-ROLE-2 a replay stops when the access is lost", func(t *testing.T) {
			s := newTheatre(t, db)
			const events, size = 80, 256 << 10
			s.fill(t, events, size)
			response := s.request(t, http.MethodGet, s.path("/stream?after=0"))
			defer response.Body.Close() //nolint:errcheck // read to its end
			_, err := io.ReadFull(response.Body, make([]byte, size))
			require.NoError(t, err)
			defer time.AfterFunc(soon, func() { _ = response.Body.Close() }).Stop() // it must end by itself
			s.owner.want(t, http.StatusOK, http.MethodDelete, s.path("/shares/"+s.share.ID), nil)
			rest, err := io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			require.Less(t, rest, int64(events-8)*size, "what was under way, and nothing more")
		})
	})
}

func TestNewestEvents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-EVT-1 tail and before answer the newest, however large", func(t *testing.T) {
			s := newTheatre(t, db)
			const events = 20
			s.fill(t, events, 1<<20)
			for _, query := range []string{"?tail=20", "?before=21&limit=20"} {
				var page struct {
					LastSeq int64        `json:"last_seq"`
					Events  []wire.Event `json:"events"`
				}
				require.NoError(t, s.owner.want(t, http.StatusOK, http.MethodGet, s.path("/events"+query), nil).Into(&page))
				require.EqualValues(t, events, page.LastSeq)
				require.EqualValues(t, events, page.Events[len(page.Events)-1].Seq, query)
				for i := 1; i < len(page.Events); i++ {
					require.Equal(t, page.Events[i-1].Seq+1, page.Events[i].Seq)
				}
			}
		})
	})
}

func TestInboxOfARevokedKey(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("SS-ROLE-2 a waiting inbox delivers nothing to a revoked key", func(t *testing.T) {
			s := newTheatre(t, db)
			device := s.owner.Device
			second, err := s.node.Identity().AddKey(t.Context(), "owner", "second")
			require.NoError(t, err)
			waiting := raw(t, at(s.node), servertest.Account{Key: second.APIKey})
			waiting.Device = device
			waiting.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
			answered := make(chan history.Answer, 1)
			go func() {
				answer, err := waiting.Do(t.Context(), http.MethodGet, "/v1/devices/me/dispatch?wait=20", nil)
				assert.NoError(t, err)
				answered <- answer
			}()
			require.NoError(t, s.node.Identity().RevokeKey(t.Context(), second.KeyID))
			s.owner.want(t, http.StatusAccepted, http.MethodPost, s.path("/dispatch"), map[string]any{"device_id": device, "text": "SECRET"})
			answer := <-answered
			require.Equal(t, http.StatusUnauthorized, answer.Status, "%s", answer)
		})
	})
}

func TestSmallFaults(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newTheatre(t, db)
		t.Run("SS-PRS-1 presence shows a role that grew", func(t *testing.T) {
			stream := s.guest.open(t, history.WebSocket, s.session, 0)
			stream.await(t, soon, "its own presence", presenceWith(s.guest.Device, wire.RoleViewer))
			s.owner.share(t, s.session, servertest.Account{UserID: *s.share.PrincipalID}, wire.RoleEditor)
			stream.await(t, soon, "the new role", presenceWith(s.guest.Device, wire.RoleEditor))
		})
		t.Run("SS-STR-1 a stream has no HEAD", func(t *testing.T) {
			for _, kind := range []string{"/stream", "/ws"} {
				response := s.request(t, http.MethodHead, s.path(kind))
				require.NoError(t, response.Body.Close())
				require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode)
			}
		})
		t.Run("SS-DSP-1 the id of a control that is no dispatch cannot be dispatched", func(t *testing.T) {
			s.owner.want(t, http.StatusAccepted, http.MethodPost, s.path("/control"), map[string]any{"id": "used", "kind": "steer"})
			answer := s.owner.want(t, http.StatusBadRequest, http.MethodPost, s.path("/dispatch"),
				map[string]any{"control_id": "used", "device_id": s.owner.Device, "text": "x"})
			require.Contains(t, fmt.Sprint(answer), "control_id")
		})
		t.Run("SS-AUD-1 the audit is paged to its beginning", func(t *testing.T) {
			var actions []string
			for before := ""; ; {
				var page struct {
					Audit []wire.AuditEntry `json:"audit"`
				}
				require.NoError(t, s.owner.want(t, http.StatusOK, http.MethodGet, "/v1/audit?session_id="+s.session+"&before="+before, nil).Into(&page))
				if len(page.Audit) == 0 {
					break
				}
				actions = append(actions, page.Audit[0].Action)
				before = page.Audit[0].ID
			}
			require.Equal(t, "session:create", actions[len(actions)-1])
			require.Greater(t, len(actions), 3)
		})
	})
}

func presenceWith(device string, role wire.Role) func(history.Frame) bool {
	return func(frame history.Frame) bool {
		var one wire.Presence
		return frame.Name == wire.FramePresence && json.Unmarshal(frame.Data, &one) == nil && one.DeviceID == device && one.Role == role
	}
}

func TestManyBodiesAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("SS-HTTP-5 bodies that come together are bounded together", func(t *testing.T) {
		t.Parallel()
		s := newTheatre(t, testkit.New(t, testkit.SQLite))
		const uploads, size = 28, 11 << 20 // a little over the bound
		refused := make(chan int, uploads)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range uploads {
			go func() {
				body, writer := io.Pipe()
				go func() {
					_, _ = writer.Write(make([]byte, size)) // and never the rest
					<-ctx.Done()
					_ = writer.Close()
				}()
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.node.URL+s.path("/events"), body)
				if !assert.NoError(t, err) {
					return
				}
				request.Header.Set("Authorization", "Bearer "+s.guest.Key)
				request.Header.Set(wire.HeaderDevice, s.guest.Device)
				response, err := s.guest.HTTP.Do(request)
				if err != nil {
					return // cancelled at the end
				}
				defer response.Body.Close() //nolint:errcheck // its status is enough
				refused <- response.StatusCode
			}()
		}
		select {
		case status := <-refused:
			require.Equal(t, code.Of(code.Unavailable).Status, status)
		case <-time.After(soon * 10):
			require.Fail(t, "nothing was refused")
		}
		s.owner.lead(t, s.session) // on a slow machine all of it outlasts a term
		s.owner.say(t, s.session, "small requests go on")
	})
}
