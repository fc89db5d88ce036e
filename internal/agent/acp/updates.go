package acp

import (
	"encoding/json"

	acpsdk "github.com/coder/acp-go-sdk"
)

// knownUpdates are the variants that the SDK reads; an agent of a later protocol may send more.
var knownUpdates = map[string]bool{
	"user_message_chunk": true, "agent_message_chunk": true, "agent_thought_chunk": true,
	"tool_call": true, "tool_call_update": true, "plan": true,
	"available_commands_update": true, "current_mode_update": true, "config_option_update": true,
	"session_info_update": true, "usage_update": true,
}

// update tells a session/update of the current session, or says what is wrong with it.
func (a *Agent) update(params json.RawMessage) (why string) {
	var notification struct {
		SessionID acpsdk.SessionId `json:"sessionId"`
		Update    json.RawMessage  `json:"update"`
	}
	if err := json.Unmarshal(params, &notification); err != nil || notification.Update == nil {
		return "update of a session in another shape"
	}
	update, why := readUpdate(notification.Update)
	switch {
	case why != "":
		return why
	case update == nil:
		a.log.Debug("agent sent an update that is not known", "update", excerpt(notification.Update))
		return ""
	case notification.SessionID == "" || notification.SessionID != a.current():
		return ""
	}
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	a.o.Handler.Update(a.told, *update)
	a.touch()
	return ""
}

// readUpdate decodes one update: nil for a variant that is not known. The raw input and output of tools stay as
// they came, in json.RawMessage, so that large numbers and the order of names survive.
func readUpdate(raw json.RawMessage) (update *acpsdk.SessionUpdate, why string) {
	var head struct {
		Variant   string          `json:"sessionUpdate"`
		RawInput  json.RawMessage `json:"rawInput"`
		RawOutput json.RawMessage `json:"rawOutput"`
	}
	if err := json.Unmarshal(raw, &head); err != nil || head.Variant == "" {
		return nil, "update without its kind"
	}
	if !knownUpdates[head.Variant] {
		return nil, ""
	}
	update = &acpsdk.SessionUpdate{}
	if err := json.Unmarshal(raw, update); err != nil {
		return nil, "update " + head.Variant + " in another shape"
	}
	switch {
	case update.ToolCall != nil:
		keepRaw(&update.ToolCall.RawInput, head.RawInput)
		keepRaw(&update.ToolCall.RawOutput, head.RawOutput)
	case update.ToolCallUpdate != nil:
		keepRaw(&update.ToolCallUpdate.RawInput, head.RawInput)
		keepRaw(&update.ToolCallUpdate.RawOutput, head.RawOutput)
	}
	return update, ""
}

// keepRaw puts a value in place of what the SDK made of it.
func keepRaw(field *any, raw json.RawMessage) {
	if *field != nil {
		*field = raw
	}
}

func (a *Agent) current() acpsdk.SessionId {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}
