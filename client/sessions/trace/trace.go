// Package trace has the payloads of the trace vocabulary: what executors write into a session's log and
// viewers read from it (shared sessions specification, section 8).
//
// The server interprets none of it. A Payload knows its event kind; New makes an event of one, Read makes
// one of an event. Kinds that are not known are Unknown, never an error, and unknown fields are ignored
// (SS-TRC-1). Everything here is a value or a pure function: nothing blocks, all is safe for concurrent use.
package trace

import (
	"bytes"
	"encoding/json"
	"fmt"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Payload is what one kind of event carries.
type Payload interface {
	// Kind answers the event kind that carries it.
	Kind() string
}

// New makes an event of a payload, in a turn ("" for none).
func New(turnID string, payload Payload) (wire.IncomingEvent, error) {
	encoded, err := encode(payload)
	if err != nil {
		return wire.IncomingEvent{}, fmt.Errorf("encode %s payload: %w", payload.Kind(), err)
	}
	event := wire.IncomingEvent{Kind: payload.Kind(), Payload: encoded}
	if turnID != "" {
		event.TurnID = &turnID
	}
	return event, nil
}

// Must is New for payloads that cannot fail to encode: all of this package except a ToolCall or Content with raw JSON that
// is not valid. It panics on those.
func Must(turnID string, payload Payload) wire.IncomingEvent {
	event, err := New(turnID, payload)
	if err != nil {
		panic(err)
	}
	return event
}

func encode(payload Payload) (json.RawMessage, error) {
	if unknown, ok := payload.(Unknown); ok {
		return unknown.Raw, nil
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(payload); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

// Unknown is an event of a kind that is not in the vocabulary; show it plainly or not at all.
type Unknown struct {
	Name string
	Raw  json.RawMessage
}

// Kind answers the kind it came with.
func (u Unknown) Kind() string { return u.Name }

var readers = map[string]func(json.RawMessage) (Payload, error){
	KindTurnStart:     read[TurnStart],
	KindTurnEnd:       read[TurnEnd],
	KindStepStart:     read[StepStart],
	KindReqStart:      read[ReqStart],
	KindLocalGen:      read[LocalGen],
	KindUser:          read[User],
	KindAssistant:     read[Assistant],
	KindToolStart:     read[ToolStart],
	KindToolCall:      read[ToolCall],
	KindToolResult:    read[ToolResult],
	KindAsk:           read[Ask],
	KindAskResolved:   read[AskResolved],
	KindControlResult: read[ControlResult],
	KindWaitUser:      read[WaitUser],
	KindScreenWait:    read[ScreenWait],
	KindRunState:      read[RunState],
	KindTodos:         read[Todos],
	KindUsage:         read[Usage],
	KindDeadline:      read[Deadline],
	KindError:         read[Failure],
	KindAgentSession:  read[AgentSession],
}

// Read makes a payload of an event that is not sealed. A payload that does not fit its kind is an error.
func Read(event wire.Event) (Payload, error) {
	reader, known := readers[event.Kind]
	if !known {
		return Unknown{Name: event.Kind, Raw: event.Payload}, nil
	}
	payload, err := reader(event.Payload)
	if err != nil {
		return nil, fmt.Errorf("read %s payload: %w", event.Kind, err)
	}
	return payload, nil
}

func read[P Payload](raw json.RawMessage) (Payload, error) {
	var payload P
	if err := json.Unmarshal(raw, &payload); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return payload, nil
}
