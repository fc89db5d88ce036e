package translate

import (
	"encoding/json"
	"slices"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// change is what one update says of a tool call; nil and "" are fields that it does not mention.
type change struct {
	id        string
	begins    bool // it is about a call that begins, though one of this id has ended
	name      string
	title     string
	kind      string
	status    acpsdk.ToolCallStatus
	content   []acpsdk.ToolCallContent
	rawInput  any
	rawOutput any
}

func callOf(call *acpsdk.SessionUpdateToolCall) change {
	return change{
		id: string(call.ToolCallId), begins: true, name: toolName(call.Meta), title: call.Title, kind: string(call.Kind), status: call.Status,
		content: call.Content, rawInput: call.RawInput, rawOutput: call.RawOutput,
	}
}

func updateOf(call *acpsdk.SessionToolCallUpdate) change {
	c := change{
		id: string(call.ToolCallId), name: toolName(call.Meta),
		content: call.Content, rawInput: call.RawInput, rawOutput: call.RawOutput,
	}
	if call.Title != nil {
		c.title = *call.Title
	}
	if call.Kind != nil {
		c.kind = string(*call.Kind)
	}
	if call.Status != nil {
		c.status = *call.Status
	}
	return c
}

// toolName is the name of the tool itself, which the protocol has no field for and Claude puts into _meta.
func toolName(meta map[string]any) string {
	claude, _ := meta["claudeCode"].(map[string]any)
	name, _ := claude["toolName"].(string)
	return name
}

// tool is an open call: all that was said of it, merged.
type tool struct {
	id                string // of the agent
	as                string // as it is told: unique, also where the agent uses an id again
	name, title, kind string
	args              json.RawMessage // nil before they are known
	called            bool            // tool_call was said
	content           []part
	cut               bool    // content was longer
	output            *string // raw output as text, nil for none
	outputCut         bool
}

// toolCall merges what is new and says what is due: the start, the arguments, the result. What is said closes the
// open message.
func (t *Translator) toolCall(c change) []trace.Payload {
	call := t.tools[c.id]
	if c.id == "" || call == nil && !c.begins && t.ended.times(c.id) > 0 {
		return nil
	}
	var said []trace.Payload
	if call == nil {
		said, call = t.start(c)
	}
	call.merge(c)
	var due []trace.Payload
	if !call.called && len(call.args) > len("{}") {
		due = call.say()
	}
	switch c.status {
	case acpsdk.ToolCallStatusCompleted:
		due = append(due, t.give(call, trace.ToolOK, "")...)
	case acpsdk.ToolCallStatusFailed:
		due = append(due, t.give(call, trace.ToolError, "")...)
	default: // it goes on
	}
	if len(due) > 0 {
		said = append(said, t.final()...)
	}
	return append(said, due...)
}

// start announces a call. It closes the open message: what follows the call is another one.
func (t *Translator) start(c change) ([]trace.Payload, *tool) {
	said := t.final()
	for len(t.order) >= MaxTools {
		said = append(said, t.give(t.tools[t.order[0]], trace.ToolError, "too many tool calls are open")...)
	}
	said = append(said, t.step()...)
	as := c.id
	if times := t.ended.times(c.id); times > 0 {
		as += "~" + number(times+1)
	}
	call := &tool{id: c.id, as: as, name: firstOf(c.name, c.kind, c.title, "tool"), title: title(c.title), kind: title(c.kind)}
	t.tools[c.id] = call
	t.order = append(t.order, c.id)
	return append(said, trace.ToolStart{ToolCallID: call.as, Name: call.name, Title: call.title, ToolKind: call.kind}), call
}

// firstOf is the first of several names that says something.
func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" && name != string(acpsdk.ToolKindOther) {
			return title(name)
		}
	}
	return "tool"
}

func (c *tool) merge(n change) {
	if n.title != "" {
		c.title = title(n.title)
	}
	if args := value(n.rawInput, MaxArgs); args != nil {
		c.args = args
	}
	if n.content != nil {
		c.content, c.cut = parts(n.content)
	}
	if output, cut := outputText(n.rawOutput); output != nil {
		c.output, c.outputCut = output, cut
	}
}

// say tells the arguments, once.
func (c *tool) say() []trace.Payload {
	if c.called {
		return nil
	}
	c.called = true
	args := c.args
	if args == nil {
		args = json.RawMessage("{}")
	}
	return []trace.Payload{trace.ToolCall{ToolCallID: c.as, Name: c.name, Args: args}}
}

// give ends a call with its result; why is a line of ours about it.
func (t *Translator) give(call *tool, status trace.ToolStatus, why string) []trace.Payload {
	said := call.say()
	content, cut := t.result(call)
	if why != "" {
		content = append(content, trace.TextContent(why))
	}
	delete(t.tools, call.id)
	t.order = slices.DeleteFunc(t.order, func(id string) bool { return id == call.id })
	t.ended.add(call.id)
	t.fresh = true
	return append(said, trace.ToolResult{ToolCallID: call.as, Status: status, Content: content, Truncated: cut})
}

// Deny ends an open call that people refused: many agents say nothing more of it.
func (t *Translator) Deny(id string) []trace.Payload {
	call := t.tools[id]
	if call == nil {
		return nil
	}
	return append(t.final(), t.give(call, trace.ToolCancelled, "it was denied")...)
}

// recent remembers the last ids, so that what an agent says of a call after its end is not taken for a new one, and how often
// each was used.
type recent struct {
	known map[string]int
	order []string
}

// maxRecent is how many are remembered.
const maxRecent = 4096

func (r *recent) times(id string) int { return r.known[id] }

func (r *recent) add(id string) {
	if r.known == nil {
		r.known = make(map[string]int)
	}
	if r.known[id]++; r.known[id] > 1 {
		return
	}
	if len(r.order) >= maxRecent {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	r.order = append(r.order, id)
}
