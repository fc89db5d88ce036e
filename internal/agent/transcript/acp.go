package transcript

import (
	"encoding/json"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/translate"
)

// Bounds of what is remembered about requests that have no response yet.
const (
	maxPending   = 1000
	maxTerminals = 64
)

// acp understands recordings of the Agent Client Protocol.
type acp struct {
	*draft

	updates *translate.Translator
	prompts map[string]bool      // requests of turns, by id
	asks    map[string]trace.Ask // open questions, by the id of their request
	outputs map[string]string    // requests for the output of a terminal: its id, by the id of the request

	terminals map[string]terminal
}

// terminal is what a terminal said last.
type terminal struct {
	output    string
	exit      *int
	truncated bool
}

func newACP(d *draft) *acp {
	a := &acp{
		draft: d, prompts: map[string]bool{}, asks: map[string]trace.Ask{},
		outputs: map[string]string{}, terminals: map[string]terminal{},
	}
	a.updates = translate.New(a.terminal)
	return a
}

// terminal answers what a terminal said, its exit code, whether it was cut, and whether it is known.
func (a *acp) terminal(id string) (string, *int, bool, bool) {
	known, found := a.terminals[id]
	return known.output, known.exit, known.truncated, found
}

func (a *acp) record() {
	a.identify("")
	message, stamp, found := unwrap(a.raw)
	a.at(stamp)
	if !found {
		a.keep(typeOf(a.raw))
		return
	}
	if message.Method == "" {
		a.response(message)
		return
	}
	if !a.ours(message.Params) {
		a.keep(message.Method)
		return
	}
	switch message.Method {
	case acpsdk.AgentMethodSessionPrompt:
		a.prompted(message)
	case acpsdk.ClientMethodSessionUpdate:
		a.update(message)
	case acpsdk.ClientMethodSessionRequestPermission:
		a.permission(message)
	case acpsdk.ClientMethodTerminalOutput:
		a.watch(message)
	default:
		a.keep(message.Method)
	}
}

// ours reports whether a request is of the session that the recording is of: the first one it names.
func (a *acp) ours(params json.RawMessage) bool {
	id := sessionIn(params)
	if a.id == "" {
		a.id = id
	}
	return id == "" || id == a.id
}

func sessionIn(params json.RawMessage) string {
	var named struct {
		ID string `json:"sessionId"`
	}
	if json.Unmarshal(params, &named) != nil {
		return ""
	}
	return named.ID
}

func (a *acp) prompted(message rpc) {
	var request acpsdk.PromptRequest
	if json.Unmarshal(message.Params, &request) != nil {
		a.keep(message.Method)
		return
	}
	a.close(trace.ToolCancelled)
	a.start(promptText(request.Prompt))
	remember(a.prompts, string(message.ID), true)
}

func promptText(blocks []acpsdk.ContentBlock) string {
	said := ""
	for _, block := range blocks {
		if said != "" {
			said += "\n"
		}
		switch {
		case block.Text != nil:
			said += block.Text.Text
		case block.Image != nil:
			said += "[image " + block.Image.MimeType + "]"
		case block.Audio != nil:
			said += "[audio " + block.Audio.MimeType + "]"
		case block.ResourceLink != nil:
			said += "[" + block.ResourceLink.Name + "](" + block.ResourceLink.Uri + ")"
		case block.Resource != nil && block.Resource.Resource.TextResourceContents != nil:
			said += "[resource " + block.Resource.Resource.TextResourceContents.Uri + "]\n" + block.Resource.Resource.TextResourceContents.Text
		default:
			said += "[resource]"
		}
	}
	return said
}

func (a *acp) update(message rpc) {
	var params struct {
		Update json.RawMessage `json:"update"`
	}
	update := acpsdk.SessionUpdate{}
	if json.Unmarshal(message.Params, &params) != nil || json.Unmarshal(params.Update, &update) != nil {
		a.keep(message.Method)
		return
	}
	if update.UserMessageChunk != nil {
		a.echoed(message, update.UserMessageChunk.Content)
		return
	}
	keepNumbers(params.Update, &update)
	said := a.updates.Update(update)
	a.sayAll(said)
	if len(said) == 0 && !quiet(update) {
		a.keep(message.Method)
	}
}

// echoed is a piece of a prompt that the agent tells: of one that was sent it is a repetition, and of a session that is
// loaded it is the prompt itself.
func (a *acp) echoed(message rpc, said acpsdk.ContentBlock) {
	text := promptText([]acpsdk.ContentBlock{said})
	switch {
	case len(a.prompts) > 0:
		a.keep(message.Method)
	case a.turn.fresh:
		a.emit(trace.User{Text: text})
		a.turn.fresh = true
	default:
		a.close(trace.ToolCancelled)
		a.start(text)
	}
}

// quiet reports whether an update may rightly say nothing by itself: pieces that wait for more of them, and changes
// of a call that are told with its result.
func quiet(update acpsdk.SessionUpdate) bool {
	return update.AgentMessageChunk != nil || update.AgentThoughtChunk != nil || update.ToolCall != nil || update.ToolCallUpdate != nil
}

// keepNumbers puts the raw input and output of a tool back in place of what was decoded of them.
func keepNumbers(raw json.RawMessage, update *acpsdk.SessionUpdate) {
	var sides struct {
		Input  json.RawMessage `json:"rawInput"`
		Output json.RawMessage `json:"rawOutput"`
	}
	if json.Unmarshal(raw, &sides) != nil {
		return
	}
	put := func(field *any, side json.RawMessage) {
		if *field != nil {
			*field = side
		}
	}
	switch {
	case update.ToolCall != nil:
		put(&update.ToolCall.RawInput, sides.Input)
		put(&update.ToolCall.RawOutput, sides.Output)
	case update.ToolCallUpdate != nil:
		put(&update.ToolCallUpdate.RawInput, sides.Input)
		put(&update.ToolCallUpdate.RawOutput, sides.Output)
	}
}

func (a *acp) sayAll(said []trace.Payload) {
	for _, payload := range said {
		a.ensure()
		a.emit(payload)
	}
}

// close tells what the updates hold back, and ends calls that have no result.
func (a *acp) close(status trace.ToolStatus) {
	said := a.updates.Close(status)
	a.updates.Begin()
	if a.turn.id != "" {
		a.sayAll(said)
	}
	for _, id := range sortedKeys(a.asks) {
		a.emit(trace.AskResolved{AskID: a.asks[id].AskID, Outcome: trace.AskExpired, Reason: "the turn ended"})
	}
	clear(a.asks)
}

func (a *acp) permission(message rpc) {
	var request acpsdk.RequestPermissionRequest
	if json.Unmarshal(message.Params, &request) != nil || len(a.asks) >= maxPending {
		a.keep(message.Method)
		return
	}
	a.sayAll(a.updates.Asking(request))
	a.ensure()
	ask := a.updates.Ask(request, a.base)
	if before, open := a.asks[string(message.ID)]; open {
		a.emit(trace.AskResolved{AskID: before.AskID, Outcome: trace.AskExpired, Reason: "its request was made again"})
	}
	a.emit(ask)
	a.asks[string(message.ID)] = ask
}

// watch remembers which terminal a request is about.
func (a *acp) watch(message rpc) {
	var request struct {
		ID string `json:"terminalId"`
	}
	if json.Unmarshal(message.Params, &request) == nil {
		remember(a.outputs, string(message.ID), request.ID)
	}
	a.keep(message.Method)
}

func remember[V any](in map[string]V, id string, value V) {
	if len(in) < maxPending {
		in[id] = value
	}
}

// answer is what a response may carry, as far as it is understood.
type answer struct {
	Outcome    *acpsdk.RequestPermissionOutcome `json:"outcome"`
	StopReason acpsdk.StopReason                `json:"stopReason"`
	Usage      *acpsdk.Usage                    `json:"usage"`
	Output     *string                          `json:"output"`
	Truncated  bool                             `json:"truncated"`
	Exit       *struct {
		Code *int `json:"exitCode"`
	} `json:"exitStatus"`
}

// response is told apart by its shape: both sides number their requests, so that an id alone says little.
func (a *acp) response(message rpc) {
	id := string(message.ID)
	var got answer
	if message.Result != nil && json.Unmarshal(message.Result, &got) != nil {
		got = answer{}
	}
	ask, asked := a.asks[id]
	switch {
	case asked && got.Outcome != nil:
		a.resolved(id, ask, *got.Outcome)
	case a.prompts[id] && got.StopReason != "":
		delete(a.prompts, id)
		a.stopped(got)
	case a.prompts[id] && message.Error != nil:
		delete(a.prompts, id)
		a.close(trace.ToolCancelled)
		a.emit(trace.Failure{Message: message.Error.Message})
		a.finish(trace.TurnFailed, headline(message.Error.Message))
	default:
		a.printed(id, got)
		a.learn(message.Result)
		a.keep("response")
	}
}

// learn takes the id of a session that was made.
func (a *acp) learn(result json.RawMessage) {
	if a.id == "" {
		a.id = sessionIn(result)
	}
}

func (a *acp) printed(id string, got answer) {
	of, asked := a.outputs[id]
	if !asked || got.Output == nil {
		return
	}
	delete(a.outputs, id)
	if _, known := a.terminals[of]; !known && len(a.terminals) >= maxTerminals {
		clear(a.terminals)
	}
	said := terminal{output: clipText(*got.Output, 1<<20), truncated: got.Truncated}
	if got.Exit != nil {
		said.exit = got.Exit.Code
	}
	a.terminals[of] = said
}

func (a *acp) resolved(id string, ask trace.Ask, outcome acpsdk.RequestPermissionOutcome) {
	delete(a.asks, id)
	a.sayAll(a.updates.Flush())
	resolved := trace.AskResolved{AskID: ask.AskID, Outcome: trace.AskCancelled}
	if outcome.Selected != nil {
		resolved.Outcome, resolved.OptionID = trace.AskSelected, string(outcome.Selected.OptionId)
	}
	a.emit(resolved)
}

// stopped ends a turn as the agent says.
func (a *acp) stopped(got answer) {
	status, calls, reason := trace.TurnCompleted, trace.ToolOK, ""
	switch got.StopReason {
	case acpsdk.StopReasonEndTurn:
	case acpsdk.StopReasonCancelled:
		status, calls = trace.TurnCancelled, trace.ToolCancelled
	case acpsdk.StopReasonRefusal:
		status, calls, reason = trace.TurnFailed, trace.ToolCancelled, string(got.StopReason)
	default:
		reason = printable(string(got.StopReason))
	}
	a.close(calls)
	if used := got.Usage; used != nil {
		cost := trace.Usage{PromptTokens: int64(used.InputTokens), CompletionTokens: int64(used.OutputTokens)}
		if used.CachedReadTokens != nil {
			cached := int64(*used.CachedReadTokens)
			cost.CachedTokens = &cached
		}
		a.emit(cost)
	}
	a.finish(status, reason)
}

func (a *acp) end() {
	cut := len(a.asks) > 0
	a.close(trace.ToolCancelled)
	if cut || len(a.prompts) > 0 && a.turn.id != "" {
		a.finish(trace.TurnCancelled, "the transcript ends here")
		return
	}
	a.finishFile()
}
