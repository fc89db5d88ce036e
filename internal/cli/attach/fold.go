package attach

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// transcript is a stretch of the log as blocks.
type transcript struct {
	blocks   []*block
	tools    map[string]*block
	controls map[string]*block
	asks     map[string]*block // of what is open in the stretch
	asked    map[string]trace.Ask
	heads    map[string]*block // where turns begin, by turn id
	sent     map[string]wire.Control
	queued   map[string]*block // what said that a control waits
	held     []*block          // those of them that wait because of a pause
	paused   bool
	day      string // of the newest event
	looks
}

// looks is what a transcript needs to know besides the log.
type looks struct {
	name  func(deviceID string) string
	zone  *time.Location
	now   func() time.Time
	keyed bool // this device has a key, which opens what was sealed for it
}

func newTranscript(l looks) *transcript {
	return &transcript{
		tools: map[string]*block{}, controls: map[string]*block{}, asks: map[string]*block{}, asked: map[string]trace.Ask{}, heads: map[string]*block{},
		sent: map[string]wire.Control{}, queued: map[string]*block{}, looks: l,
	}
}

// put adds a block for an event.
func (t *transcript) put(e entry, b *block) *block {
	b.first, b.last, b.turn = e.event.Seq, e.event.Seq, e.turn()
	t.blocks = append(t.blocks, b)
	return b
}

func (t *transcript) line(e entry, in style, mark, label, body string) *block {
	return t.put(e, &block{style: in, mark: mark, label: label, body: body})
}

// newest answers the last block, or nil.
func (t *transcript) newest() *block {
	if len(t.blocks) == 0 {
		return nil
	}
	return t.blocks[len(t.blocks)-1]
}

// add takes the next event.
func (t *transcript) add(e entry) {
	t.newDay(e)
	switch {
	case e.control != nil:
		t.control(e)
	case e.event.Kind == wire.KindLeaseTransferred:
		t.transfer(e)
	case e.sealed:
		t.seal(e)
	default:
		t.payload(e)
	}
}

func (t *transcript) payload(e entry) {
	switch p := e.payload.(type) {
	case trace.TurnStart:
		t.turnStart(e, p)
	case trace.TurnEnd:
		t.turnEnd(e, p)
	case trace.User:
		t.user(e, p)
	case trace.Assistant:
		t.assistant(e, p)
	case trace.ToolStart, trace.ToolCall, trace.ToolResult:
		t.tool(e)
	case trace.Ask:
		t.asks[p.AskID] = t.line(e, yellow, "?", "asks", askLine(p))
		t.asked[p.AskID] = p
	case trace.AskResolved:
		t.settled(e, p)
	case trace.ControlResult:
		t.outcome(e, p)
	case trace.RunState:
		t.runState(e, p)
	case trace.ScreenWait:
		t.line(e, faint, "·", "", fmt.Sprintf("waits for the screen, number %d", p.Position))
	case trace.Deadline:
		limit := time.Duration(min(max(p.MS, 0), 1<<40)) * time.Millisecond
		t.line(e, red, "✗", "deadline", fmt.Sprintf("%s took longer than %s", oneLine(short(string(p.Budget), 40)), limit))
	case trace.Failure:
		t.line(e, red, "✗", "error", withReason(manyLines(short(p.Message, 4000)), p.Code))
	case trace.AgentSession:
		t.line(e, faint, "·", "", agentText(p))
	case trace.Unknown:
		if strings.HasPrefix(p.Name, keptKind) {
			return
		}
		t.line(e, faint, "·", oneLine(short(p.Name, wire.MaxKind)), oneLine(short(string(p.Raw), 240)))
	}
}

// keptKind begins the kinds of records that an import kept as they came; they say nothing to a reader.
const keptKind = "import:"

func agentText(p trace.AgentSession) string {
	text := "agent " + oneLine(short(p.Agent, 120))
	if p.Loaded {
		text += ", which goes on from before"
	}
	return text
}

// runState shows a pause and its end. What waited for that end does not any more.
func (t *transcript) runState(e entry, p trace.RunState) {
	if t.paused = p.State == trace.StatePaused; t.paused {
		t.line(e, magenta, "‖", "", "paused")
		return
	}
	t.line(e, magenta, "‖", "", "goes on")
	for _, b := range t.held {
		t.hide(b)
	}
	t.held = nil
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + " (" + oneLine(short(reason, 500)) + ")"
}

func (t *transcript) turnStart(e entry, p trace.TurnStart) {
	label := "turn · " + t.clock(e.event.TS)
	text := p.Text
	if control, known := t.sent[p.ControlID]; known && p.ControlID != "" {
		label += " · from " + t.name(control.FromDeviceID)
		if text == "" && control.Text != nil {
			text = *control.Text
		}
		t.hide(t.controls[p.ControlID])
	}
	t.hide(t.queued[p.ControlID])
	b := t.put(e, &block{kind: blockTurn, label: label, body: manyLines(short(text, 8000))})
	t.heads[b.turn] = b
}

func (t *transcript) hide(b *block) {
	if b != nil {
		b.hidden = true
		b.touch()
	}
}

func (t *transcript) turnEnd(e entry, p trace.TurnEnd) {
	look, known := turnMarks[p.Status]
	if !known {
		look.mark, look.style = "■", plain
	}
	t.line(e, look.style, look.mark, "", withReason("turn "+oneLine(short(string(p.Status), 40)), p.Reason))
}

// user is what a person said; the words that began the turn stand at its head already.
func (t *transcript) user(e entry, p trace.User) {
	body := manyLines(short(p.Text, 8000))
	if head := t.heads[e.turn()]; head != nil && head.body == body {
		return
	}
	t.put(e, &block{kind: blockPerson, body: body})
}

func (t *transcript) assistant(e entry, p trace.Assistant) {
	kind := blockAgent
	if p.Thought {
		kind = blockThought
	}
	text := p.Text
	for {
		b := t.newest()
		if b == nil || b.kind != kind || b.turn != e.turn() || b.closed {
			if text == "" {
				return
			}
			b = t.put(e, &block{kind: kind})
		}
		taken := upTo(text, maxBlockBytes-b.text.Len())
		b.text.WriteString(taken)
		b.last = e.event.Seq
		b.touch()
		text = text[len(taken):]
		b.closed = p.Final || text != "" || b.text.Len() >= maxBlockBytes
		if text == "" {
			return
		}
	}
}

// upTo answers the beginning of a text, at most so many bytes, and cuts no character.
func upTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	most = max(most, 0)
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func (t *transcript) tool(e entry) {
	switch p := e.payload.(type) {
	case trace.ToolStart:
		b := t.toolBlock(e, p.ToolCallID, p.Name, p.Title)
		if b.tool.title == "" {
			b.tool.title = oneLine(short(p.Title, 300))
		}
	case trace.ToolCall:
		t.toolBlock(e, p.ToolCallID, p.Name, "").tool.call(p.Name, p.Args)
	case trace.ToolResult:
		t.toolBlock(e, p.ToolCallID, "", "").tool.result(p)
	}
}

// toolBlock answers the block of a tool call; one whose start is not held begins with what comes first.
func (t *transcript) toolBlock(e entry, id, name, title string) *block {
	key := e.turn() + "\x00" + id
	b := t.tools[key]
	if b == nil {
		b = t.put(e, &block{kind: blockTool, tool: newTool(id, name, title)})
		t.tools[key] = b
	}
	b.touch()
	return b
}

// tooEarly says why a device that has a key cannot open something.
const tooEarly = "sealed before this device had its key; it reads from now on"

func (t *transcript) seal(e entry) {
	kind := oneLine(short(e.event.Kind, wire.MaxKind))
	if t.keyed {
		kind = tooEarly
	}
	b := t.newest()
	if b == nil || b.kind != blockSealed {
		t.put(e, &block{kind: blockSealed, label: kind, count: 1})
		return
	}
	b.count++
	b.last = e.event.Seq
	if len(b.label) < 200 && !strings.Contains(b.label, kind) {
		b.label += ", " + kind
	}
	b.touch()
}

func (t *transcript) transfer(e entry) {
	var transfer struct {
		From string `json:"from_device_id"`
		To   string `json:"to_device_id"`
	}
	if json.Unmarshal(e.event.Payload, &transfer) != nil {
		return
	}
	t.line(e, magenta, "⇄", "", t.name(transfer.To)+" took over from "+t.name(transfer.From))
}
