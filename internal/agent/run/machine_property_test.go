package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// world is what carries out a machine's effects in the property test, and checks them.
type world struct {
	t        require.TestingT
	machine  machine
	turn     string // open in the log
	asks     map[string]bool
	resolved map[string]int
	marked   map[string]int
	ended    map[string]int // control_result other than queued, turn_start, ask_resolved
	confirms []string
	prompted bool
}

func (w *world) handle(in input) {
	for _, next := range w.machine.handle(in) {
		switch next := next.(type) {
		case say:
			w.said(next)
		case mark:
			w.marked[next.control]++
			require.Positive(w.t, w.ended[next.control], "%s is marked before it is said what came of it", next.control)
		case confirm:
			w.confirms = append(w.confirms, next.turn)
		case prompt:
			require.False(w.t, w.prompted, "two prompts at once")
			require.False(w.t, w.machine.paused, "a prompt in a pause")
			require.NotEmpty(w.t, next.text)
			w.prompted = true
		case reply:
			delete(w.asks, next.ask)
		}
	}
}

func (w *world) said(said say) {
	switch payload := said.payload.(type) {
	case trace.TurnStart:
		require.Empty(w.t, w.turn, "a turn begins inside another")
		w.turn = said.turn
		w.ended[payload.ControlID]++
	case trace.TurnEnd:
		require.Equal(w.t, w.turn, said.turn)
		require.Empty(w.t, w.machine.asks, "a question is open at the end of its turn")
		w.turn = ""
	case trace.Ask:
		require.NotEmpty(w.t, w.turn, "a question outside a turn")
		w.asks[payload.AskID] = true
	case trace.AskResolved:
		w.resolved[payload.AskID]++
		require.Equal(w.t, 1, w.resolved[payload.AskID], "%s is settled twice", payload.AskID)
		if payload.Outcome == trace.AskSelected || payload.Outcome == trace.AskText { // else the control did more than that
			w.ended[payload.ControlID]++
		}
	case trace.ControlResult:
		if payload.Outcome != trace.ControlQueued {
			w.ended[payload.ControlID]++
		}
	}
}

// TestMachineKeepsItsPromises plays random stories, and then lets everything end.
func TestMachineKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, asks: map[string]bool{}, resolved: map[string]int{}, marked: map[string]int{}, ended: map[string]int{}}
		var controls []string
		open := 0
		for i := range rapid.IntRange(1, 60).Draw(t, "length") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				made := drawControl(t, fmt.Sprint("c", i), controls, open)
				controls = append(controls, made.ID)
				w.handle(gotControl{made})
			case 3:
				w.confirm()
			case 4:
				open++
				w.handle(gotAsk{question(fmt.Sprint("a", open)).ask})
			case 5:
				w.endPrompt(rapid.SampledFrom([]promptEnded{
					{status: trace.TurnCompleted}, {status: trace.TurnCancelled}, {status: trace.TurnFailed, failure: &trace.Failure{Code: "agent_exited"}},
				}).Draw(t, "end"))
			case 6:
				w.handle(gotOutput{payloads: []trace.Payload{trace.Assistant{Text: "x"}}, boundary: true})
			case 8:
				w.handle(overdue{trace.Deadline{Budget: trace.BudgetRequest}})
			case 9:
				w.handle(agentGone{trace.Failure{Code: "agent_exited"}})
			case 7:
				w.handle(askGone{fmt.Sprint("a", rapid.IntRange(0, open).Draw(t, "gone"))})
			}
		}
		if rapid.Bool().Draw(t, "leaves") {
			w.leave()
			return
		}
		w.handle(control("the-last resume"))
		for range 2 * len(controls) {
			w.confirm()
			w.endPrompt(completed())
		}
		w.settled(controls)
	})
}

// leave checks that a stop closes everything that is open, and that nothing happens after it.
func (w *world) leave() {
	w.handle(leaving{"stopped"})
	require.Empty(w.t, w.turn)
	require.Empty(w.t, w.asks)
	require.Empty(w.t, w.machine.handle(control("too-late send go")))
}

func (w *world) confirm() {
	if len(w.confirms) > 0 {
		turn := w.confirms[0]
		w.confirms = w.confirms[1:]
		w.handle(turnStored{turn})
	}
}

func (w *world) endPrompt(ended promptEnded) {
	if w.prompted {
		w.prompted = false
		w.handle(ended)
	}
}

// settled checks that nothing is open and every control ended once; only injected texts may wait for a next turn.
func (w *world) settled(controls []string) {
	require.Empty(w.t, w.turn)
	require.Empty(w.t, w.asks)
	require.Empty(w.t, w.machine.waiting)
	waiting := map[string]bool{}
	for _, note := range w.machine.notes {
		waiting[note.control] = true
	}
	for _, id := range controls {
		want := 1
		if waiting[id] {
			want = 0
		}
		require.Equal(w.t, want, w.marked[id], "%s is marked", id)
		require.Equal(w.t, want, w.ended[id], "%s has ended", id)
	}
}

func drawControl(t *rapid.T, id string, controls []string, asks int) wire.Control {
	made := wire.Control{ID: id, Kind: rapid.SampledFrom(wire.ControlKinds()).Draw(t, "kind"), FromDeviceID: "phone"}
	text := rapid.SampledFrom([]string{"", "do it", "yes"}).Draw(t, "text")
	made.Text = &text
	if len(controls) > 0 && rapid.Bool().Draw(t, "names a turn") {
		turn := rapid.SampledFrom(controls).Draw(t, "turn")
		made.TurnID = &turn
	}
	if rapid.Bool().Draw(t, "names a question") {
		ask := fmt.Sprint("a", rapid.IntRange(0, asks).Draw(t, "ask"))
		made.AskID = &ask
	}
	return made
}
