// Package translate makes of what an agent says over ACP what an executor writes into a session's log: the
// payloads of the trace vocabulary (shared sessions specification, section 8).
//
// A Translator is pure state: updates in, payloads out, in the order in which they must be written. It gathers
// message chunks; the caller flushes them at the latest 200 ms after Pending became true, calls Close at the end
// of each prompt, and Begin where a turn begins. All texts that come out are valid UTF-8, all JSON is valid and
// bounded, so that the server takes it. A Translator is not safe for concurrent use.
package translate

import (
	"strings"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// The bounds of one payload, in bytes of text before JSON quotes it.
const (
	MaxPiece  = 16 << 10  // of an assistant's piece
	MaxResult = 256 << 10 // of a tool's result, all content together
	MaxArgs   = 256 << 10 // of a tool's arguments
	MaxAsk    = 8 << 10   // of the text of a question
	maxTitle  = 500       // of a title, a label or a name
)

// MaxTools is how many tool calls may be open at once; one more closes the oldest as failed.
const MaxTools = 256

// Translator knows what of a turn was said already. The zero value is not ready: see New.
type Translator struct {
	terminal func(id string) (output string, exit *int, truncated, ok bool)

	steps int  // of this turn
	fresh bool // the next output begins a step

	text    strings.Builder // of the piece that is gathered
	open    bool            // a message is open: a piece of it is gathered, or was sent without being final
	thought bool            // of the open message
	message string          // its id, "" when the agent gives none

	tools map[string]*tool // open calls
	order []string         // their ids, oldest first
	ended recent           // calls that have their result

	todos []trace.Todo // the list as last told; nil before the first
	cost  int64        // of the session as last told, in millionths of a dollar
}

// New makes a Translator. terminal answers what a terminal of the agent printed, as acp.Agent.Terminal does; nil
// knows none.
func New(terminal func(id string) (output string, exit *int, truncated, ok bool)) *Translator {
	if terminal == nil {
		terminal = func(string) (string, *int, bool, bool) { return "", nil, false, false }
	}
	return &Translator{terminal: terminal, fresh: true, tools: make(map[string]*tool)}
}

// Update takes one update and answers what must be said now. Message chunks answer nothing until they are
// flushed, pass MaxPiece, or something else begins.
func (t *Translator) Update(u acpsdk.SessionUpdate) []trace.Payload {
	switch {
	case u.AgentMessageChunk != nil:
		return t.chunk(u.AgentMessageChunk.Content, u.AgentMessageChunk.MessageId, false)
	case u.AgentThoughtChunk != nil:
		return t.chunk(u.AgentThoughtChunk.Content, u.AgentThoughtChunk.MessageId, true)
	case u.ToolCall != nil:
		return t.toolCall(callOf(u.ToolCall))
	case u.ToolCallUpdate != nil:
		return t.toolCall(updateOf(u.ToolCallUpdate))
	case u.Plan != nil:
		return t.plan(u.Plan.Entries)
	case u.UsageUpdate != nil:
		return t.spent(u.UsageUpdate.Cost)
	default:
		return nil // the user's own words, modes, commands, settings: no rows of a transcript
	}
}

// chunk gathers a piece of a message.
func (t *Translator) chunk(block acpsdk.ContentBlock, message *string, thought bool) []trace.Payload {
	text := blockText(block)
	if text == "" {
		return nil
	}
	id := ""
	if message != nil {
		id = *message
	}
	var said []trace.Payload
	if t.open && (t.thought != thought || t.message != id) {
		said = t.final()
	}
	said = append(said, t.step()...)
	t.open, t.thought, t.message = true, thought, id
	t.text.WriteString(text)
	if t.text.Len() > MaxPiece {
		said = append(said, t.pieces()...)
	}
	return said
}

// pieces sends what is gathered, in pieces of MaxPiece at most.
func (t *Translator) pieces() []trace.Payload {
	rest := t.text.String()
	t.text.Reset()
	var said []trace.Payload
	for rest != "" {
		piece := head(rest, MaxPiece)
		rest = rest[len(piece):]
		said = append(said, trace.Assistant{Text: piece, Thought: t.thought})
	}
	return said
}

// Pending says that text is gathered which Flush would send.
func (t *Translator) Pending() bool { return t.text.Len() > 0 }

// Flush answers the gathered text; the message stays open.
func (t *Translator) Flush() []trace.Payload { return t.pieces() }

// final closes the open message, if there is one.
func (t *Translator) final() []trace.Payload {
	if !t.open {
		return nil
	}
	said := t.pieces()
	t.open = false
	if len(said) == 0 {
		return []trace.Payload{trace.Assistant{Thought: t.thought, Final: true}}
	}
	last := said[len(said)-1].(trace.Assistant)
	last.Final = true
	said[len(said)-1] = last
	return said
}

// step begins a step if this output is the first of its turn, or the first after a tool's result.
func (t *Translator) step() []trace.Payload {
	if !t.fresh {
		return nil
	}
	t.fresh = false
	t.steps++
	return []trace.Payload{trace.StepStart{Step: t.steps}}
}

// Close ends a prompt: the open message gets its final piece, and calls that are still open a result with this
// status (cancelled, or error, which says why). The next output begins a step.
func (t *Translator) Close(status trace.ToolStatus) []trace.Payload {
	said := t.final()
	why := ""
	if status != trace.ToolCancelled {
		status, why = trace.ToolError, "the turn ended before the tool did"
	}
	for len(t.order) > 0 {
		said = append(said, t.give(t.tools[t.order[0]], status, why)...)
	}
	t.fresh = true
	return said
}

// Begin begins a turn: its steps count from 1. A turn may have several prompts.
func (t *Translator) Begin() { t.steps, t.fresh = 0, true }

// plan answers the agent's list when it has changed.
func (t *Translator) plan(entries []acpsdk.PlanEntry) []trace.Payload {
	items := make([]trace.Todo, 0, min(len(entries), trace.MaxTodos))
	for i, entry := range entries[:min(len(entries), trace.MaxTodos)] {
		items = append(items, trace.Todo{ID: number(i + 1), Title: title(entry.Content), Status: todoStatus(entry.Status)})
	}
	if t.todos != nil && equal(t.todos, items) {
		return nil
	}
	t.todos = items
	list := trace.NewTodos(items, "")
	list.Source = trace.TodosTool // though no call of a tool made it
	return []trace.Payload{list}
}

func todoStatus(status acpsdk.PlanEntryStatus) trace.TodoStatus {
	switch status {
	case acpsdk.PlanEntryStatusInProgress:
		return trace.TodoInProgress
	case acpsdk.PlanEntryStatusCompleted:
		return trace.TodoCompleted
	default:
		return trace.TodoNotStarted
	}
}

// spent answers what was added to the cost of the session. An agent tells the sum; payloads add up. What it
// tells of its context window is no cost. A sum that shrinks began anew.
func (t *Translator) spent(cost *acpsdk.Cost) []trace.Payload {
	if cost == nil || !strings.EqualFold(cost.Currency, "USD") || !(cost.Amount >= 0 && cost.Amount < 1e9) {
		return nil
	}
	sum := int64(cost.Amount*1e6 + 0.5)
	added := sum - t.cost
	if added < 0 {
		added = sum
	}
	t.cost = sum
	if added == 0 {
		return nil
	}
	return []trace.Payload{trace.Usage{CostMicroUSD: &added}}
}
