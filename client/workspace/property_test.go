package workspace_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// history is a client's copy beside a world, with what is under way between them.
type history struct {
	f       *fake
	client  *workspace.Client
	state   *workspace.State
	store   *workspace.Memory
	waiting []wire.Envelope // seen, not yet delivered
	online  bool
	roll    dice
	depth   int // of requests under way
	faults  []error
	trace   []string
}

func (h *history) sayf(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

// RoundTrip carries a request out, and lets the world go on before the answer is there.
func (h *history) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	recorded := httptest.NewRecorder()
	h.f.ServeHTTP(recorded, r)
	if h.state != nil && h.depth == 0 {
		h.depth++
		for range h.roll(4) {
			h.step()
		}
		h.depth--
	}
	return recorded.Result(), nil
}

func (h *history) step() {
	switch h.roll(3) {
	case 0:
		h.f.do(func(w *world) { w.random(h.roll) })
	default:
		h.deliver(1 + h.roll(3))
	}
}

func (h *history) deliver(n int) {
	for ; n > 0 && len(h.waiting) > 0; n-- {
		event, err := workspace.Decode(h.waiting[0])
		if err == nil {
			err = h.state.Apply(event)
		}
		h.sayf("apply %d %s %s %s v%d %s", event.Seq, event.Type, event.Scope.ThreadID, event.Resource.ID, event.Resource.Version, event.Payload)
		if err != nil {
			h.faults = append(h.faults, err)
		}
		h.waiting = h.waiting[1:]
	}
}

// connect goes on from where the copy stands, with what is visible now (ES-8.1).
func (h *history) connect() {
	h.f.do(func(w *world) {
		h.waiting = nil
		h.online = true
		h.state.SetLive(false)
		for _, event := range w.log {
			if event.Seq > h.state.Applied() && w.sees(event.Envelope) {
				h.waiting = append(h.waiting, event.Envelope)
			}
		}
	})
	h.sayf("connect")
	h.deliver(len(h.waiting))
	h.sayf("connected")
	h.state.SetLive(true)
}

func (h *history) disconnect() { h.online, h.waiting = false, nil }

// restart goes on with what was stored, in a new copy.
func (h *history) restart(t require.TestingT) {
	changed, err := h.state.Records()
	require.NoError(t, err)
	require.NoError(t, h.store.Commit(nil, workspace.Position{}, changed)) //nolint:staticcheck // memory needs no context
	_, records, err := h.store.LoadCopy(nil)                               //nolint:staticcheck // as above
	require.NoError(t, err)
	before := h.state.Export()
	h.state = workspace.NewState(h.f.device)
	h.state.SetLive(true)
	require.NoError(t, h.state.Restore(records))
	require.Empty(t, workspace.Compare(h.state.Export(), before), "a stored copy is the same copy")
}

func (h *history) load(t *rapid.T) {
	needs := h.state.Needs()
	if len(needs) == 0 {
		return
	}
	n := needs[h.roll(len(needs))]
	h.sayf("load %s", n)
	done, err := h.client.Load(t.Context(), h.state, n)
	h.sayf("loaded %s %t", n, done)
	require.NoError(t, err)
}

func (h *history) open() {
	h.f.mu.Lock()
	threads, channels := slices.Sorted(maps.Keys(h.f.threads)), slices.Sorted(maps.Keys(h.f.chans))
	readable := func(thread string) bool { return h.f.readable(thread) }
	at := h.f.clock
	var thread, channel string
	if len(threads) > 0 {
		thread = threads[h.roll(len(threads))]
	}
	if len(channels) > 0 {
		channel = channels[h.roll(len(channels))]
	}
	seen := thread != "" && readable(thread)
	channelSeen := channel != "" && h.f.level(channel) != ""
	h.f.mu.Unlock()
	switch h.roll(6) {
	case 0:
		h.state.CloseThread(thread)
	case 1:
		h.state.CloseChannel(channel)
	case 2:
		if channelSeen {
			h.state.OpenChannel(channel, at)
		}
	default:
		if seen {
			h.state.OpenThread(thread, at)
		}
	}
}

// settle delivers and loads all that is left.
func (h *history) settle(t *rapid.T) {
	h.roll = func(int) int { return 1 } // the world stands still: only deliveries
	if !h.online {
		h.connect()
	}
	for range 200 {
		h.deliver(len(h.waiting))
		needs := h.state.Needs()
		if len(needs) == 0 {
			return
		}
		h.sayf("load %s", needs[0])
		_, err := h.client.Load(t.Context(), h.state, needs[0])
		h.sayf("loaded %s", needs[0])
		require.NoError(t, err)
	}
	require.Fail(t, "the copy does not settle", "%v", h.state.Needs())
}

func newHistory(t *rapid.T) *history {
	h := &history{f: bareFake(), store: workspace.NewMemory(), online: true}
	h.roll = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "roll") }
	client, err := workspace.New(workspace.Config{
		BaseURL: baseURL, Device: workspace.Device{ID: h.f.device, Name: "n", Platform: "p"}, Keys: &workspace.MemoryKeys{},
		HTTP: &http.Client{Transport: h},
	})
	require.NoError(t, err)
	h.client = client
	_, err = client.SignIn(t.Context(), workspace.Password("me", "right"))
	require.NoError(t, err)
	h.f.do(func(w *world) {
		w.grants[wire.Target{Kind: wire.TargetInstance}] = wire.LevelWrite
		c := w.channel(w.space("first").ID, "first", wire.ChannelText)
		w.post(c.MainThreadID, w.other, "@me hello")
		for range rapid.IntRange(0, 15).Draw(t, "before") {
			w.random(h.roll)
		}
		w.heard = func(e wire.Envelope) {
			if h.online {
				h.waiting = append(h.waiting, e)
			}
		}
	})
	snapshot, err := client.Snapshot(t.Context())
	require.NoError(t, err)
	h.state = workspace.NewState(h.f.device)
	h.state.Start(snapshot)
	h.state.SetLive(true)
	return h
}

// For every type of event: an old snapshot and events, mixed with what is loaded meanwhile, end in the same as
// a fresh snapshot (ES-9.3).
func TestOldSnapshotAndEventsAreAFreshOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch h.roll(12) {
			case 0, 1, 2, 3, 4:
				h.f.do(func(w *world) { w.random(h.roll) })
			case 5, 6:
				h.deliver(1 + h.roll(5))
			case 7, 8:
				h.load(t)
			case 9, 10:
				h.open()
			default:
				switch {
				case h.roll(3) == 0:
					h.restart(t)
				case h.online:
					h.disconnect()
				default:
					h.connect()
				}
			}
		}
		h.settle(t)
		require.Empty(t, h.faults)
		fresh, err := h.client.Fresh(t.Context(), h.state.Export())
		require.NoError(t, err)
		differences := workspace.Compare(h.state.Export(), fresh)
		if len(differences) > 0 {
			t.Log(strings.Join(h.trace, "\n"))
		}
		for _, difference := range differences {
			t.Errorf("%s", difference)
		}
	})
}
