package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// flaky loses the answers to the first requests in turn, in the ways answers are lost, then accepts.
type flaky struct {
	mu   sync.Mutex // guards the rest
	seen []wire.IncomingControl
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/events") {
		_, _ = io.WriteString(w, `{"last_seq":1,"events":[{"seq":1,"kind":"ask","payload":{"ask_id":"ask-1","title":"Go on?","options":[]}}]}`)
		return
	}
	var control wire.IncomingControl
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &control) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, control)
	turn := len(f.seen)
	f.mu.Unlock()
	switch turn {
	case 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	case 2:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	default:
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(wire.ControlReceipt{Accepted: true, Seq: 7})
	}
}

func TestAControlKeepsItsIDWhenItIsSentAgain(t *testing.T) {
	t.Parallel()
	server := &flaky{}
	listening := httptest.NewServer(server)
	defer listening.Close()
	s := newShell(t, "CAIRN_URL="+listening.URL, "CAIRN_API_KEY=codai_x")
	t.Run("SS-CON-2 one id per intention, again on retry", func(t *testing.T) {
		require.Equal(t, "approve is event 7\n", s.done("session", "approve", "S", "ask-1", "go", "on"))
		require.Len(t, server.seen, 3)
		for _, seen := range server.seen {
			require.Equal(t, server.seen[0].ID, seen.ID)
			require.NotEmpty(t, seen.ID)
			require.Equal(t, "ask-1", *seen.AskID)
			require.Equal(t, "go on", *seen.Text)
		}
	})
	t.Run("another invocation is another intention, unless it names the id", func(t *testing.T) {
		s.done("session", "cancel", "S", "--turn", "t1")
		s.done("session", "send", "S", "--id", "mine", "hello")
		last := server.seen[len(server.seen)-2:]
		require.NotEqual(t, server.seen[0].ID, last[0].ID)
		require.Equal(t, "t1", *last[0].TurnID)
		require.Nil(t, last[0].Text)
		require.Equal(t, "mine", last[1].ID)
	})
	t.Run("text from standard input", func(t *testing.T) {
		s.stdin = "first\nsecond\n"
		s.done("session", "steer", "S", "-")
		require.Equal(t, "first\nsecond", *server.seen[len(server.seen)-1].Text)
	})
}

func TestAnswersThatRefuse(t *testing.T) {
	t.Parallel()
	const key = "codai_do-not-print-me"
	for name, one := range map[string]struct {
		status int
		body   string
		parts  []string
	}{
		"bad key":   {401, `{"error":{"code":"invalid_api_key","message":"no"}}`, []string{"does not accept the key in CAIRN_API_KEY", "cairn key add"}},
		"not found": {404, `{"error":{"code":"not_found","message":"Session not found."}}`, []string{"cairn: Session not found\n"}},
		"no member": {403, `{"error":{"code":"not_a_member","message":"No."}}`, []string{"Ask the session's owner"}},
		"device":    {403, `{"error":{"code":"forbidden","message":"Device id is registered to another account."}}`, []string{"set CAIRN_DEVICE"}},
		"fields":    {400, `{"error":{"code":"bad_request","message":"Bad.","details":{"formErrors":[],"fieldErrors":{"title":["too long"]}}}}`, []string{"Bad\n  title: too long"}},
		"a proxy":   {404, `<html>`, []string{"no cairn server (HTTP 404)"}},
		"escapes":   {409, `{"error":{"code":"lease_held","message":"\u001b[31mred"}}`, []string{"cairn: red\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(one.status)
				_, _ = io.WriteString(w, one.body)
			}))
			t.Cleanup(listening.Close)
			s := newShell(t, "CAIRN_URL="+listening.URL, "CAIRN_API_KEY="+key)
			got := s.call("session", "show", "S")
			require.Equal(t, exitFailed, got.code)
			require.Empty(t, got.out)
			require.NotContains(t, got.errs, key)
			require.LessOrEqual(t, strings.Count(got.errs, "\n"), 3)
			for _, part := range one.parts {
				require.Contains(t, got.errs, part)
			}
		})
	}
}
