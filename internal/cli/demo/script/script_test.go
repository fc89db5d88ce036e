package script

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func load(t require.TestingT) Recording {
	run, err := Load()
	require.NoError(t, err)
	return run
}

func payload(t require.TestingT, line Line) trace.Payload {
	payload, err := trace.Read(wire.Event{Kind: line.Kind, Payload: line.Payload})
	require.NoError(t, err, line.ID)
	return payload
}

func TestRecordingIsInTheVocabulary(t *testing.T) {
	t.Parallel()
	run := load(t)
	require.GreaterOrEqual(t, len(run), 200)
	kinds := map[string]bool{}
	for _, line := range run {
		into := reflect.New(reflect.TypeOf(payload(t, line)))
		decoder := json.NewDecoder(bytes.NewReader(line.Payload))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(into.Interface()), "%s has a field that %s has not", line.ID, line.Kind)
		kinds[line.Kind] = true
	}
	for _, kind := range []string{
		trace.KindTurnStart, trace.KindTurnEnd, trace.KindStepStart, trace.KindToolCall, trace.KindToolResult, trace.KindTodos,
		trace.KindAsk, trace.KindUsage, trace.KindAssistant, trace.KindUser, trace.KindError, trace.KindDeadline,
	} {
		require.True(t, kinds[kind], "no %s", kind)
	}
}

// Every tool call has a start, a call and one result, in a turn and a step that count on.
func TestRecordingIsOneStory(t *testing.T) {
	t.Parallel()
	turn, step, calls := "", 0, map[string]string{}
	for _, line := range load(t) {
		switch p := payload(t, line).(type) {
		case trace.TurnStart:
			require.Empty(t, turn, line.ID)
			turn, step = line.Turn, 0
		case trace.TurnEnd:
			require.Equal(t, turn, line.Turn, line.ID)
			turn = ""
			continue
		case trace.StepStart:
			step++
			require.Equal(t, step, p.Step, line.ID)
		case trace.ToolStart:
			require.Empty(t, calls[p.ToolCallID], line.ID)
			calls[p.ToolCallID] = "started"
		case trace.ToolCall:
			require.Equal(t, "started", calls[p.ToolCallID], line.ID)
			calls[p.ToolCallID] = "called"
		case trace.ToolResult:
			require.Equal(t, "called", calls[p.ToolCallID], line.ID)
			calls[p.ToolCallID] = "done"
		case trace.Todos:
			require.Equal(t, trace.NewTodos(p.Items, p.ToolCallID), p, line.ID)
		case trace.Ask:
			require.Equal(t, "called", calls[p.ToolCallID], line.ID)
		}
		require.Equal(t, turn, line.Turn, line.ID)
	}
	require.Empty(t, turn)
	for id, state := range calls {
		require.Equal(t, "done", state, id)
	}
}

// What a line waits for has its cue before it, so the play cannot stop for good.
func TestHoldsComeAfterTheirCues(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	acts := map[Act]int{}
	for _, line := range load(t) {
		require.True(t, line.Hold == "" || seen[line.Hold], "%s waits for %s", line.ID, line.Hold)
		if line.Cue != nil {
			seen[string(line.Cue.Do)] = true
			acts[line.Cue.Do]++
		}
	}
	require.Equal(t, map[Act]int{ActCut: 2, ActJoin: 1, ActTakeover: 1, ActApprove: 1, ActPause: 1, ActSteer: 1, ActSend: 1}, acts)
}

func TestIndexKnowsOnlyLines(t *testing.T) {
	t.Parallel()
	run := load(t)
	for id, expected := range map[string]int{"run-0001": 0, "run-0249": 248} {
		i, ok := run.Index(wire.Event{ClientEventID: &id})
		require.True(t, ok, id)
		require.Equal(t, expected, i)
	}
	for _, id := range []string{"", "run-", "run-0", "run-0250", "run--1", "run-x", "0001"} {
		_, ok := run.Index(wire.Event{ClientEventID: &id})
		require.False(t, ok, id)
		require.Nil(t, run.Cue(wire.Event{ClientEventID: &id}))
	}
	_, ok := run.Index(wire.Event{})
	require.False(t, ok)
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", `{"wait":"long"}`, `{"hould":"pause"}`} {
		_, err := parse([]byte(text))
		require.ErrorContains(t, err, "line 1")
	}
}
