// Package script is what the demonstration plays: a recorded agent run, and the state of playing it.
//
// Contract. Load answers the recording, which is part of the program. A Player is a pure state machine over it: it
// answers what comes next and what controls lead to, and its state follows from the session's log alone, so that
// another device can go on where the log stands (Restore). Cues say when the other parts of the demonstration act,
// holds say which of those acts a line waits for; so the play is the same on fast and slow machines.
//
// Order. Lines are played in order, each once: a line's ID is the client_event_id of its event.
//
// Blocking and concurrency. Nothing blocks. A Recording is not changed after Load and may be shared; a Player belongs
// to one goroutine.
package script

import (
	"bytes"
	_ "embed" // the recording
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

//go:embed testdata/run.jsonl
var recorded []byte

// Recording is an agent run, in order.
type Recording []Line

// Line is one event of a Recording.
type Line struct {
	ID      string          // its event's client_event_id
	Wait    time.Duration   // since the line before
	Turn    string          // turn_id
	Kind    string          // of the trace vocabulary
	Payload json.RawMessage // likewise
	Cue     *Cue            // what somebody does when they see it, or nil
	Hold    string          // what must have happened before: a kind of control, HoldTakeover, or ""
}

// Cue is what somebody does when they see a line.
type Cue struct {
	Do    Act           `json:"do"`
	After time.Duration `json:"-"`    // what the person takes to think
	Again time.Duration `json:"-"`    // of ActPause: how long until they resume
	Text  string        `json:"text"` // of ActSteer and ActSend
}

// Act is what a Cue asks for.
type Act string

// The acts.
const (
	ActCut      Act = "cut"      // the viewer that loses its connection loses it
	ActJoin     Act = "join"     // the late viewer joins
	ActTakeover Act = "takeover" // the second device takes the lease by force
	ActApprove  Act = "approve"  // the editor allows what is asked
	ActPause    Act = "pause"    // the editor pauses, and later resumes
	ActSteer    Act = "steer"    // the editor steers the turn
	ActSend     Act = "send"     // the editor starts another turn
)

// HoldTakeover is the hold that a forced transfer of the lease lifts.
const HoldTakeover = "takeover"

const idPrefix = "run-"

// Load answers the recording of the demonstration.
func Load() (Recording, error) { return parse(recorded) }

// written is a line as it stands in the file; times are milliseconds.
type written struct {
	Wait    int64           `json:"wait"`
	Turn    string          `json:"turn"`
	Kind    string          `json:"kind"`
	Payload json.RawMessage `json:"payload"`
	Hold    string          `json:"hold"`
	Cue     *struct {
		Cue

		After int64 `json:"after"`
		Again int64 `json:"again"`
	} `json:"cue"`
}

func parse(content []byte) (Recording, error) {
	var run Recording
	for i, text := range bytes.Split(bytes.TrimSpace(content), []byte("\n")) {
		var from written
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&from); err != nil {
			return nil, fmt.Errorf("read line %d of the recording: %w", i+1, err)
		}
		line := Line{
			ID: fmt.Sprintf("%s%04d", idPrefix, i+1), Wait: milliseconds(from.Wait), Turn: from.Turn, Kind: from.Kind,
			Payload: from.Payload, Hold: from.Hold,
		}
		if from.Cue != nil {
			cue := from.Cue.Cue
			cue.After, cue.Again = milliseconds(from.Cue.After), milliseconds(from.Cue.Again)
			line.Cue = &cue
		}
		run = append(run, line)
	}
	return run, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Index answers which line an event is, and whether it is one.
func (r Recording) Index(event wire.Event) (int, bool) {
	if event.ClientEventID == nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(*event.ClientEventID, idPrefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(number)
	if err != nil || i < 1 || i > len(r) {
		return 0, false
	}
	return i - 1, true
}

// Cue answers what the event is the cue for, or nil.
func (r Recording) Cue(event wire.Event) *Cue {
	if i, ok := r.Index(event); ok {
		return r[i].Cue
	}
	return nil
}

// event answers the event of a line.
func (l Line) event() wire.IncomingEvent {
	id, turn := l.ID, l.Turn
	return wire.IncomingEvent{Kind: l.Kind, TurnID: &turn, ClientEventID: &id, Payload: l.Payload}
}
