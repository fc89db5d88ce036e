package acp

import (
	"encoding/json"
	"fmt"
	"strings"

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

// readUpdate decodes one update: nil for a variant that is not known.
func readUpdate(raw json.RawMessage) (update *acpsdk.SessionUpdate, why string) {
	var variant struct {
		Name string `json:"sessionUpdate"`
	}
	if err := json.Unmarshal(raw, &variant); err != nil || variant.Name == "" {
		return nil, "update without its kind"
	}
	if !knownUpdates[variant.Name] {
		return nil, ""
	}
	var values toolValues
	if strings.HasPrefix(variant.Name, "tool_call") {
		raw = values.takeOut(raw)
	}
	update = &acpsdk.SessionUpdate{}
	if err := json.Unmarshal(raw, update); err != nil {
		return nil, "update " + variant.Name + " in another shape"
	}
	switch {
	case update.ToolCall != nil:
		values.putIn(&update.ToolCall.RawInput, &update.ToolCall.RawOutput)
	case update.ToolCallUpdate != nil:
		values.putIn(&update.ToolCallUpdate.RawInput, &update.ToolCallUpdate.RawOutput)
	}
	return update, ""
}

// toolValues are the raw input and output of a tool call, which may be any JSON. They go around the SDK's
// decoding, so that large numbers and the order of names survive it.
type toolValues struct {
	input, output json.RawMessage
}

// takeOut takes the values out of a tool call; what is no object stays as it is.
func (v *toolValues) takeOut(call json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(call, &fields) != nil {
		return call
	}
	v.input, v.output = fields["rawInput"], fields["rawOutput"]
	if v.input == nil && v.output == nil {
		return call
	}
	delete(fields, "rawInput")
	delete(fields, "rawOutput")
	rest, err := json.Marshal(fields)
	if err != nil {
		return call
	}
	return rest
}

// putIn gives the values, in json.RawMessage, to whoever reads the call. null is none.
func (v *toolValues) putIn(input, output *any) {
	for field, value := range map[*any]json.RawMessage{input: v.input, output: v.output} {
		if len(value) > 0 && string(value) != "null" {
			*field = value
		}
	}
}

// permissionRequest is a permission request whose tool call keeps its values as they came.
type permissionRequest struct {
	acpsdk.RequestPermissionRequest
}

// UnmarshalJSON decodes the request.
func (p *permissionRequest) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("read permission request: %w", err)
	}
	var values toolValues
	fields["toolCall"] = values.takeOut(fields["toolCall"])
	rest, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(rest, &p.RequestPermissionRequest)
	}
	if err != nil {
		return fmt.Errorf("read permission request: %w", err)
	}
	values.putIn(&p.ToolCall.RawInput, &p.ToolCall.RawOutput)
	return nil
}

func (a *Agent) current() acpsdk.SessionId {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}
