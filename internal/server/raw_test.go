package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// caller is an account on one device, over plain HTTP.
type caller struct{ *history.Client }

// raw makes an account on a fresh device; its connections end with the test.
func raw(t *testing.T, url func() string, who servertest.Account) caller {
	t.Helper()
	client := history.NewHTTP()
	t.Cleanup(client.CloseIdleConnections)
	return caller{&history.Client{URL: url, Key: who.Key, Device: uuid.NewString(), HTTP: client}}
}

func at(node *servertest.Server) func() string { return func() string { return node.URL } }

// do makes a request that must be answered.
func (c caller) do(t *testing.T, method, path string, body any) history.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer, err := c.Do(ctx, method, path, body)
	require.NoError(t, err, "%s %s", method, path)
	return answer
}

// want makes a request that must be answered with a status.
func (c caller) want(t *testing.T, status int, method, path string, body any) history.Answer {
	t.Helper()
	answer := c.do(t, method, path, body)
	require.Equal(t, status, answer.Status, "%s %s → %s", method, path, answer)
	return answer
}

func (c caller) newSession(t *testing.T) string {
	t.Helper()
	var made wire.Session
	require.NoError(t, c.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions", map[string]any{}).Into(&made))
	return made.ID
}

// share gives somebody a role and answers the share.
func (c caller) share(t *testing.T, session string, who servertest.Account, role wire.Role) wire.Share {
	t.Helper()
	var made wire.Share
	require.NoError(t, c.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions/"+session+"/shares",
		map[string]any{"principal_type": "user", "principal_id": who.UserID, "role": role}).Into(&made))
	return made
}

// link makes a link share and answers its token.
func (c caller) link(t *testing.T, session string, role wire.Role) string {
	t.Helper()
	var made wire.Share
	require.NoError(t, c.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions/"+session+"/shares",
		map[string]any{"principal_type": "link", "role": role}).Into(&made))
	return made.Token
}

// say appends one event of a kind; the caller holds the lease.
func (c caller) say(t *testing.T, session, kind string) {
	t.Helper()
	c.want(t, http.StatusOK, http.MethodPost, "/v1/sessions/"+session+"/events",
		map[string]any{"events": []map[string]any{{"kind": kind, "client_event_id": uuid.NewString()}}})
}

func (c caller) lead(t *testing.T, session string) {
	t.Helper()
	c.want(t, http.StatusOK, http.MethodPost, "/v1/sessions/"+session+"/lease", nil)
}

// present counts the devices that have a session open.
func (c caller) present(t *testing.T, session string) int {
	t.Helper()
	var detail wire.SessionDetail
	require.NoError(t, c.want(t, http.StatusOK, http.MethodGet, "/v1/sessions/"+session, nil).Into(&detail))
	return len(detail.Presence)
}

// feed is an open stream that is read in the background, so that frames carry the time they came.
type feed struct {
	*history.Stream
	transport history.Transport
}

// open opens a stream that must be accepted; it ends with the test.
func (c caller) open(t *testing.T, transport history.Transport, session string, after int64) *feed {
	t.Helper()
	stream, refusal, err := c.Open(t.Context(), transport, session, after)
	require.NoError(t, err)
	require.NotNil(t, stream, "%s stream of %s → %s", transport, session, refusal)
	t.Cleanup(stream.Close)
	return &feed{stream, transport}
}

// await reads frames up to the first that matches, and answers it.
func (f *feed) await(t *testing.T, atMost time.Duration, what string, matches func(history.Frame) bool) history.Frame {
	t.Helper()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		select {
		case frame, open := <-f.Frames:
			if !open {
				require.FailNow(t, "the stream ended", "%s: with %d, %v", what, f.Code, f.Err)
			}
			if matches(frame) {
				return frame
			}
		case <-timer.C:
			require.FailNow(t, "waited in vain", "%s after %v", what, atMost)
		}
	}
}

// ends reads the rest of the stream, which must end in time, and answers the kinds of its events.
func (f *feed) ends(t *testing.T, atMost time.Duration) []string {
	t.Helper()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	var kinds []string
	for {
		select {
		case frame, open := <-f.Frames:
			if !open {
				return kinds
			}
			if frame.Name == wire.FrameEvent {
				kinds = append(kinds, kindOf(t, frame))
			}
		case <-timer.C:
			require.FailNow(t, "the stream goes on", "after %v", atMost)
		}
	}
}

func kindOf(t *testing.T, frame history.Frame) string {
	t.Helper()
	var event wire.Event
	require.NoError(t, json.Unmarshal(frame.Data, &event))
	return event.Kind
}

func isEvent(t *testing.T, kind string) func(history.Frame) bool {
	t.Helper()
	return func(f history.Frame) bool { return f.Name == wire.FrameEvent && kindOf(t, f) == kind }
}

func named(name string) func(history.Frame) bool {
	return func(f history.Frame) bool { return f.Name == name }
}
