package transcript

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Bounds of what is remembered about a transcript.
const (
	maxSeen  = 8 << 20 // record ids; later ones carry the number of their line
	maxCalls = 1000    // tool calls of a turn that have no result yet
	titleMax = 80
)

// draft is what all dialects share: it numbers, dates and collects the events of one record after the other.
type draft struct {
	format Format
	limit  int                  // of a payload, in bytes
	events []wire.IncomingEvent // of the record that is read
	cut    bool                 // one of them was too large

	line int    // number of the record's line
	raw  []byte // its JSON
	base string // its part of client_event_ids
	part int
	ts   *int64
	// agent is the sub-agent that the record is of, "" for the main one, and parent the tool call that started it.
	agent, parent string

	turn  turn
	model string // that was named last

	id     string // of the session, as the transcript says
	prompt string // the first one
	named  string // by a person
	summed string // by the agent

	seen map[uint64]uint32
}

// turn is the turn that runs, if one does.
type turn struct {
	id     string // "" for none
	fresh  bool   // nothing but its start was said
	failed string // why it would end as failed now, or ""
	calls  []string
}

func newDraft(format Format) *draft {
	return &draft{format: format, limit: maxPayload, seen: map[uint64]uint32{}}
}

// begin starts a record.
func (d *draft) begin(line int, raw []byte) {
	d.line, d.raw, d.part, d.cut = line, raw, 0, false
	d.agent, d.parent = "", ""
	d.events = nil
}

// identify makes what the ids of the record's events begin with; id is the record's own, or "". It comes before the
// first event.
func (d *draft) identify(id string) { d.base = d.recordID(d.line, d.raw, id) }

// recordID answers what begins the ids of a record's events: its own id, with a number from the second time on that
// the file has it, else its line and content.
func (d *draft) recordID(line int, raw []byte, id string) string {
	if id == "" {
		sum := sha256.Sum256(raw)
		return "line:" + strconv.Itoa(line) + ":" + hex.EncodeToString(sum[:6])
	}
	id = plainID(id)
	switch count := d.count(id); {
	case count == 0:
		return id + "~line" + strconv.Itoa(line)
	case count > 1:
		return id + "~" + strconv.Itoa(int(count))
	default:
		return id
	}
}

// count answers how often id was seen by now, or 0 when too many are remembered to tell.
func (d *draft) count(id string) uint32 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // never fails
	key := hash.Sum64()
	if _, known := d.seen[key]; !known && len(d.seen) >= maxSeen {
		return 0
	}
	d.seen[key]++
	return d.seen[key]
}

// plainID answers id if it is short and of letters, digits, dot, dash and underline, else a digest of it.
func plainID(id string) string {
	plain := len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	})
	if plain && id != "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha-" + hex.EncodeToString(sum[:16])
}

// at dates the record; what is no time leaves it at the previous record's.
func (d *draft) at(stamp json.RawMessage) {
	if moment, ok := moment(stamp); ok {
		d.ts = &moment
	}
}

// emit adds an event in the turn that runs.
func (d *draft) emit(payload trace.Payload) { d.emitAs("", payload) }

// emitAs adds an event with an id of its own, or with the next one of the record for "".
func (d *draft) emitAs(id string, payload trace.Payload) {
	event, err := trace.New(d.turn.id, payload)
	if err != nil {
		d.keep("record") // arguments that are no JSON; they came from a valid line, so this is not reached
		return
	}
	d.turn.fresh = false
	d.add(id, event)
}

// keep adds the record itself, as an opaque event of the type name.
func (d *draft) keep(name string) {
	event := wire.IncomingEvent{Kind: opaqueKind(d.format, name)}
	if d.turn.id != "" {
		event.TurnID = &d.turn.id
	}
	event.Payload = opaque(d.raw)
	d.add("", event)
}

func (d *draft) add(id string, event wire.IncomingEvent) {
	if id == "" {
		id = d.base + ":" + strconv.Itoa(d.part)
		d.part++
	}
	event.ClientEventID = &id
	event.TS = d.ts
	if event.TurnID != nil {
		turn := *event.TurnID
		event.TurnID = &turn
	}
	event.Payload = d.labelled(event.Payload)
	if len(event.Payload) > d.limit {
		event.Payload, d.cut = shrink(event.Payload, d.limit), true
	}
	d.events = append(d.events, event)
}

// labelled adds to a payload which sub-agent it is of: fields that a viewer may know and others ignore (SS-TRC-1).
func (d *draft) labelled(payload json.RawMessage) json.RawMessage {
	if d.agent == "" {
		return payload
	}
	label, err := json.Marshal(struct {
		AgentID string `json:"agent_id"`
		Parent  string `json:"parent_tool_call_id,omitempty"`
	}{d.agent, d.parent})
	if err != nil || len(payload) < 2 {
		return payload
	}
	if len(payload) == 2 { // {}
		return label
	}
	return append(append(payload[:len(payload)-1:len(payload)-1], ','), label[1:]...)
}

// voice puts in front of a text which sub-agent it is of, so that every viewer shows it.
func (d *draft) voice(text string) string {
	if d.agent == "" {
		return text
	}
	return "[agent " + d.agent + "] " + text
}

// start begins a turn with what a person asked, after the end of one that runs.
func (d *draft) start(text string) {
	d.endTurn()
	if d.prompt == "" {
		d.prompt = headline(text)
	}
	d.turn = turn{id: d.base}
	d.emit(trace.TurnStart{Text: text})
	d.turn.fresh = true
}

// ensure begins a turn that no prompt began, when none runs.
func (d *draft) ensure() {
	if d.turn.id == "" {
		d.turn = turn{id: d.base}
		d.emit(trace.TurnStart{})
	}
}

// endTurn ends the turn that runs, if one does, because the next thing shows that it is over.
func (d *draft) endTurn() {
	if d.turn.failed != "" {
		d.finish(trace.TurnFailed, d.turn.failed)
		return
	}
	d.finish(trace.TurnCompleted, "")
}

// finish ends the turn that runs, if one does. Tool calls without a result end with a turn that was cancelled.
func (d *draft) finish(status trace.TurnStatus, reason string) {
	if d.turn.id == "" {
		return
	}
	if status == trace.TurnCancelled {
		d.agent, d.parent = "", ""
		for _, call := range d.turn.calls {
			d.emit(trace.ToolResult{ToolCallID: call, Status: trace.ToolCancelled, Content: []trace.Content{}})
		}
	}
	d.emit(trace.TurnEnd{Status: status, Reason: reason})
	d.turn = turn{}
}

// finishFile ends what the file leaves open. A turn without an answer, or with tool calls without a result, was cut off.
func (d *draft) finishFile() {
	if d.turn.id == "" {
		return
	}
	if d.turn.fresh || len(d.turn.calls) > 0 {
		d.finish(trace.TurnCancelled, "the transcript ends here")
		return
	}
	d.endTurn()
}

// call announces a tool call and makes it.
func (d *draft) call(id, name, shownAs string, args json.RawMessage) {
	d.ensure()
	if len(args) == 0 {
		args = json.RawMessage("null")
	}
	d.emit(trace.ToolStart{ToolCallID: id, Name: d.voice(name), Title: shownAs, ToolKind: toolKind(name)})
	d.emit(trace.ToolCall{ToolCallID: id, Name: d.voice(name), Args: args})
	d.turn.failed = ""
	if len(d.turn.calls) < maxCalls {
		d.turn.calls = append(d.turn.calls, id)
	}
}

// result ends a tool call.
func (d *draft) result(id string, status trace.ToolStatus, content []trace.Content) {
	if content == nil {
		content = []trace.Content{}
	}
	d.emit(trace.ToolResult{ToolCallID: id, Status: status, Content: content})
	for i, call := range d.turn.calls {
		if call == id {
			d.turn.calls = append(d.turn.calls[:i], d.turn.calls[i+1:]...)
			return
		}
	}
}

// says adds what the agent says or thinks; blanks alone are nothing said.
func (d *draft) says(text string, thought bool) {
	if strings.TrimSpace(text) == "" {
		return
	}
	d.ensure()
	d.turn.failed = ""
	d.emit(trace.Assistant{Text: d.voice(text), Thought: thought, Final: true})
}

// asks says which model was asked, when it is another one than before.
func (d *draft) asks(model string) {
	if model != "" && model != d.model {
		d.model = model
		d.emit(trace.ReqStart{Model: d.voice(model)})
	}
}

// title answers the best title there is by now, or "".
func (d *draft) title() string {
	for _, known := range []string{d.named, d.prompt, d.summed} {
		if known != "" {
			return known
		}
	}
	return ""
}

// headline makes a title of a text: one line of at most 80 characters.
func headline(text string) string {
	return clip(strings.Join(strings.Fields(printable(text)), " "), titleMax)
}

// clip cuts text to most characters, the last one an ellipsis when something is missing.
func clip(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// printable takes out what kinds and titles must not have (SS-OBJ-4), and other controls.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// opaqueKind is the kind of a record that is kept as it came.
func opaqueKind(format Format, name string) string {
	name = strings.Join(strings.Fields(printable(name)), " ")
	if name == "" {
		name = "unknown"
	}
	kind := []rune(fmt.Sprintf("import:%s:%s", format, name))
	return string(kind[:min(len(kind), wire.MaxKind)])
}
