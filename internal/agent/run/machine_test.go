package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// control makes a control: ID KIND [@turn] [?ask] [text…].
func control(line string) gotControl {
	words := strings.Fields(line)
	made := wire.Control{ID: words[0], Kind: wire.ControlKind(words[1]), FromDeviceID: "phone"}
	var text []string
	for _, word := range words[2:] {
		if turn, ok := strings.CutPrefix(word, "@"); ok {
			made.TurnID = &turn
		} else if ask, ok := strings.CutPrefix(word, "?"); ok {
			made.AskID = &ask
		} else {
			text = append(text, word)
		}
	}
	if joined := strings.Join(text, " "); joined != "" {
		made.Text = &joined
	}
	return gotControl{made}
}

// question is a permission request with two options.
func question(id string) gotAsk {
	return gotAsk{trace.Ask{AskID: id, AskKind: trace.AskPermission, Title: "may I", Options: []trace.Option{
		{ID: "always", Label: "Always", Kind: trace.AllowAlways}, {ID: "yes", Label: "Yes", Kind: trace.AllowOnce},
		{ID: "no", Label: "No", Kind: trace.RejectOnce},
	}}}
}

func completed() promptEnded { return promptEnded{status: trace.TurnCompleted} }

// told writes an effect as a short line.
func told(next effect) string {
	switch next := next.(type) {
	case say:
		turn := next.turn
		if turn == "" {
			turn = "-"
		}
		return turn + " " + payloadLine(next.payload)
	case mark:
		return "mark " + next.control
	case confirm:
		return "confirm " + next.turn
	case prompt:
		return "prompt " + strings.ReplaceAll(next.text, "\n\n", " | ")
	case interrupt:
		return "interrupt"
	case reply:
		return strings.TrimSpace("reply " + next.ask + " " + next.option)
	case release:
		return "release"
	default:
		return fmt.Sprintf("%T", next)
	}
}

func payloadLine(payload trace.Payload) string {
	line := payload.Kind()
	switch payload := payload.(type) {
	case trace.TurnStart:
		line += " " + payload.ControlID
	case trace.TurnEnd:
		line += " " + string(payload.Status) + " " + payload.Reason
	case trace.Ask:
		line += " " + payload.AskID
	case trace.AskResolved:
		line += " " + payload.AskID + " " + string(payload.Outcome) + " " + payload.OptionID + " " + payload.ControlID
	case trace.ControlResult:
		line += " " + payload.ControlID + " " + string(payload.Outcome)
		if payload.BlockedByAskID != "" {
			line += " by " + payload.BlockedByAskID
		}
	case trace.RunState:
		line += " " + string(payload.State)
	case trace.User:
		line += " " + payload.Text
	case trace.Failure:
		line += " " + payload.Code
	case trace.Deadline:
		line += " " + string(payload.Budget)
	}
	return strings.Join(strings.Fields(line), " ")
}

// step is an input and what must come of it.
type step struct {
	in   input
	want []string
}

func TestMachine(t *testing.T) {
	t.Parallel()
	begun := []step{
		{control("c1 send build it"), []string{"c1 turn_start c1", "mark c1", "confirm c1"}},
		{turnStored{"c1"}, []string{"prompt build it"}},
	}
	stories := map[string][]step{
		"a prompt becomes a turn, marked when its begin is stored, given to the agent after that": append(begun[:2:2],
			step{completed(), []string{"c1 turn_end completed"}}),
		"a prompt that comes meanwhile waits, pending, and runs next": append(begun[:2:2],
			step{control("c2 send @t2 then that"), []string{"c1 control_result c2 queued"}},
			step{completed(), []string{"c1 turn_end completed", "t2 turn_start c2", "mark c2", "confirm t2"}},
			step{turnStored{"t2"}, []string{"prompt then that"}}),
		"SS-CTL-3 the first answer wins, a second one is told so": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 approve ?a"), []string{"c1 ask_resolved a selected yes c2", "reply a yes", "mark c2"}},
			step{control("c3 deny ?a"), []string{"c1 control_result c3 superseded", "mark c3"}},
			step{control("c4 approve"), []string{"c1 control_result c4 rejected", "mark c4"}},
			step{control("c5 approve ?z"), []string{"c1 control_result c5 expired", "mark c5"}}),
		"SS-CTL-3 an answer takes an option by id or by label": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{question("b"), []string{"c1 ask b"}},
			step{control("c2 answer ?b no"), []string{"c1 ask_resolved b selected no c2", "reply b no", "mark c2"}},
			step{control("c3 answer Always"), []string{"c1 ask_resolved a selected always c3", "reply a always", "mark c3"}}),
		"words as an answer refuse the agent and are given to it next": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 answer ?a use the other file"), []string{"c1 ask_resolved a text no c2", "reply a no", "mark c2"}},
			step{completed(), []string{"c1 user use the other file", "prompt use the other file"}},
			step{completed(), []string{"c1 turn_end completed"}}),
		"five questions are answered in any order, and none without saying which": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}}, step{question("b"), []string{"c1 ask b"}}, step{question("c"), []string{"c1 ask c"}},
			step{question("d"), []string{"c1 ask d"}}, step{question("e"), []string{"c1 ask e"}},
			step{control("c2 approve"), []string{"c1 control_result c2 rejected", "mark c2"}},
			step{control("c3 approve ?d"), []string{"c1 ask_resolved d selected yes c3", "reply d yes", "mark c3"}},
			step{control("c4 deny ?a"), []string{"c1 ask_resolved a selected no c4", "reply a no", "mark c4"}},
			step{control("c5 approve ?e"), []string{"c1 ask_resolved e selected yes c5", "reply e yes", "mark c5"}},
			step{control("c6 approve ?b"), []string{"c1 ask_resolved b selected yes c6", "reply b yes", "mark c6"}},
			step{control("c7 approve"), []string{"c1 ask_resolved c selected yes c7", "reply c yes", "mark c7"}}),
		"text sent while a question is open says what blocks it, and is not lost": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 send more"), []string{"c1 control_result c2 queued by a"}},
			step{control("c3 steer faster"), []string{"c1 control_result c3 queued by a"}},
			step{control("c4 approve"), []string{"c1 ask_resolved a selected yes c4", "reply a yes", "mark c4"}},
			step{completed(), []string{"c1 user faster", "c1 control_result c3 applied", "mark c3", "prompt faster"}},
			step{completed(), []string{"c1 turn_end completed", "c2 turn_start c2", "mark c2", "confirm c2"}}),
		"SS-CTL-3 cancel ends the turn, its questions and what was meant for it; a prompt that waits runs next": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 steer left"), []string{"c1 control_result c2 queued by a"}},
			step{control("c3 send next"), []string{"c1 control_result c3 queued by a"}},
			step{control("c4 cancel"), []string{
				"c1 control_result c2 superseded", "mark c2", "c1 control_result c4 applied", "mark c4",
				"c1 ask_resolved a cancelled c4", "reply a", "interrupt",
			}},
			step{control("c5 cancel @c1"), []string{"c1 control_result c5 applied", "mark c5"}},
			step{question("b"), []string{"reply b"}},
			step{control("c6 steer right"), []string{"c1 control_result c6 superseded", "mark c6"}},
			step{promptEnded{status: trace.TurnCancelled}, []string{"c1 turn_end cancelled", "c3 turn_start c3", "mark c3", "confirm c3"}}),
		"cancel before the prompt was given": {
			begun[0],
			{control("c2 cancel"), []string{"c1 control_result c2 applied", "mark c2"}},
			{turnStored{"c1"}, []string{"c1 turn_end cancelled"}},
		},
		"cancel takes back a prompt that waits, and knows one that is gone": append(begun[:2:2],
			step{control("c2 send @t2 next"), []string{"c1 control_result c2 queued"}},
			step{control("c3 cancel @t2"), []string{"c1 control_result c2 superseded", "mark c2", "c1 control_result c3 applied", "mark c3"}},
			step{control("c4 cancel @t2"), []string{"c1 control_result c4 expired", "mark c4"}},
			step{completed(), []string{"c1 turn_end completed"}},
			step{control("c5 cancel"), []string{"- control_result c5 expired", "mark c5"}}),
		"SS-CTL-3 pause holds at the next boundary, the turn stays open, resume sends nothing again": append(begun[:2:2],
			step{control("c2 pause"), []string{"c1 control_result c2 applied", "mark c2"}},
			step{gotOutput{payloads: []trace.Payload{trace.Assistant{Text: "x"}}}, []string{"c1 assistant"}},
			step{gotOutput{payloads: []trace.Payload{trace.ToolStart{}}, boundary: true}, []string{"c1 tool_start", "c1 run_state paused"}},
			step{control("c3 send next"), []string{"c1 control_result c3 queued"}},
			step{control("c4 resume"), []string{"c1 control_result c4 applied", "mark c4", "c1 run_state running", "release"}},
			step{completed(), []string{"c1 turn_end completed", "c3 turn_start c3", "mark c3", "confirm c3"}}),
		"a pause at rest keeps the next turn waiting": {
			{control("c1 pause"), []string{"- control_result c1 applied", "mark c1", "- run_state paused"}},
			{control("c2 send go"), []string{"- control_result c2 queued"}},
			{control("c3 pause"), []string{"- control_result c3 applied", "mark c3"}},
			{control("c4 resume"), []string{
				"- control_result c4 applied", "mark c4", "- run_state running", "release", "c2 turn_start c2", "mark c2", "confirm c2",
			}},
		},
		"SS-CTL-3 a pause holds what steers the turn, and resume gives it": append(begun[:2:2],
			step{control("c2 pause"), []string{"c1 control_result c2 applied", "mark c2"}},
			step{control("c3 steer left"), []string{"c1 control_result c3 queued"}},
			step{completed(), []string{"c1 run_state paused"}},
			step{control("c4 steer more"), []string{"c1 control_result c4 queued"}},
			step{control("c5 resume"), []string{
				"c1 control_result c5 applied", "mark c5", "c1 run_state running", "release", "c1 user left", "c1 control_result c3 applied", "mark c3",
				"c1 user more", "c1 control_result c4 applied", "mark c4", "prompt left | more",
			}},
			step{completed(), []string{"c1 turn_end completed"}}),
		"a pause at a question holds what steers the turn; cancel ends it all": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 pause"), []string{"c1 control_result c2 applied", "mark c2", "c1 run_state paused"}},
			step{control("c3 steer left"), []string{"c1 control_result c3 queued by a"}},
			step{completed(), []string{"c1 ask_resolved a cancelled", "reply a"}},
			step{control("c4 cancel"), []string{
				"c1 control_result c3 superseded", "mark c3", "c1 control_result c4 applied", "mark c4", "c1 run_state running", "release", "c1 turn_end cancelled",
			}}),
		"a pause before the prompt was given holds it": {
			begun[0],
			{control("c2 pause"), []string{"c1 control_result c2 applied", "mark c2"}},
			{gotOutput{boundary: true}, []string{"c1 run_state paused"}},
			{turnStored{"c1"}, nil},
			{control("c3 resume"), []string{"c1 control_result c3 applied", "mark c3", "c1 run_state running", "release", "prompt build it"}},
		},
		"cancel ends a pause": append(begun[:2:2],
			step{control("c2 pause"), []string{"c1 control_result c2 applied", "mark c2"}},
			step{gotOutput{boundary: true}, []string{"c1 run_state paused"}},
			step{control("c3 cancel"), []string{"c1 control_result c3 applied", "mark c3", "c1 run_state running", "release", "interrupt"}}),
		"an injected text goes with the next prompt, in this turn or the next": append(begun[:2:2],
			step{control("c2 inject mind the tests"), []string{"c1 control_result c2 queued"}},
			step{completed(), []string{"c1 turn_end completed"}},
			step{control("c3 inject and the docs"), []string{"- control_result c3 queued"}},
			step{control("c4 send go on"), []string{"c4 turn_start c4", "mark c4", "confirm c4"}},
			step{turnStored{"c4"}, []string{
				"c4 user mind the tests", "c4 control_result c2 applied", "mark c2", "c4 user and the docs", "c4 control_result c3 applied", "mark c3",
				"prompt mind the tests | and the docs | go on",
			}}),
		"SS-CTL-3 steering at rest begins a turn, for a turn that is over it expires": {
			{control("c1 steer @old left"), []string{"- control_result c1 expired", "mark c1"}},
			{control("c2 steer left"), []string{"c2 turn_start c2", "mark c2", "confirm c2"}},
		},
		"an approval of a finished turn is closed": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{completed(), []string{"c1 ask_resolved a expired", "reply a", "c1 turn_end completed"}},
			step{control("c2 approve ?a"), []string{"- control_result c2 expired", "mark c2"}}),
		"an agent that dies is told, and the next prompt is tried with another": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 send again"), []string{"c1 control_result c2 queued by a"}},
			step{promptEnded{status: trace.TurnFailed, reason: "agent_exited", failure: &trace.Failure{Code: "agent_exited"}}, []string{
				"c1 error agent_exited", "c1 ask_resolved a expired", "reply a", "c1 turn_end failed agent_exited",
				"c2 turn_start c2", "mark c2", "confirm c2",
			}}),
		"a limit of time ends the turn as failed": append(begun[:2:2],
			step{overdue{trace.Deadline{Budget: trace.BudgetRequest}}, []string{"c1 deadline request", "c1 error deadline", "interrupt"}},
			step{overdue{trace.Deadline{Budget: trace.BudgetRequest}}, nil},
			step{promptEnded{status: trace.TurnCancelled}, []string{"c1 turn_end failed deadline"}}),
		"a limit of time does not turn a cancelled turn into a failed one": append(begun[:2:2],
			step{control("c2 cancel"), []string{"c1 control_result c2 applied", "mark c2", "interrupt"}},
			step{overdue{trace.Deadline{Budget: trace.BudgetRequest}}, nil},
			step{promptEnded{status: trace.TurnCancelled}, []string{"c1 turn_end cancelled"}}),
		"leaving closes what is open; what waits stays pending": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{control("c2 send later"), []string{"c1 control_result c2 queued by a"}},
			step{leaving{"stopped"}, []string{"c1 ask_resolved a expired", "reply a", "c1 turn_end cancelled stopped", "release"}},
			step{control("c3 send no"), nil}),
		"what cannot be done is refused, visibly": {
			{control("c1 send"), []string{"- control_result c1 rejected", "mark c1"}},
			{control("c2 inject"), []string{"- control_result c2 rejected", "mark c2"}},
			{control("c3 approve"), []string{"- control_result c3 rejected", "mark c3"}},
			{control("c4 dance"), []string{"- control_result c4 rejected", "mark c4"}},
			{question("a"), []string{"- error ask_outside_turn", "reply a"}},
			{gotControl{wire.Control{ID: "c5", Kind: wire.ControlSend, Mode: wire.ModeOpen}}, []string{"mark c5"}},
		},
		"a question that the agent takes back is closed": append(begun[:2:2],
			step{question("a"), []string{"c1 ask a"}},
			step{askGone{"a"}, []string{"c1 ask_resolved a cancelled", "reply a"}},
			step{askGone{"a"}, nil}),
	}
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m machine
			for i, step := range steps {
				var got []string
				for _, next := range m.handle(step.in) {
					got = append(got, told(next))
				}
				require.Equal(t, step.want, got, "step %d: %+v", i+1, step.in)
			}
		})
	}
}

func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	var m machine
	m.handle(control("c send begin"))
	m.handle(turnStored{"c"})
	for _, kind := range []string{"send", "steer"} {
		for i := range maxWaiting {
			require.Contains(t, told(m.handle(control(fmt.Sprintf("%s%d %s text", kind, i, kind)))[0]), "queued")
		}
		got := m.handle(control("one-more " + kind + " text"))
		require.Equal(t, "c control_result one-more rejected", told(got[0]))
	}
}
