package translate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// Asking answers what must be said before the question of a permission request: the open message is closed, and
// the call it is about is announced when the agent did not do that.
func (t *Translator) Asking(request acpsdk.RequestPermissionRequest) []trace.Payload {
	said := t.final()
	c := request.ToolCall
	asked := updateOf(&acpsdk.SessionToolCallUpdate{
		Meta: c.Meta, ToolCallId: c.ToolCallId, Title: c.Title, Kind: c.Kind, Status: c.Status,
		Content: c.Content, RawInput: c.RawInput, RawOutput: c.RawOutput,
	})
	asked.begins = true // nobody asks about a call that has ended
	return append(said, t.toolCall(asked)...)
}

// Ask is the question of a permission request. Its text is what the agent shows of the call, a diff as lines with
// - and +, else the command or the arguments.
func (t *Translator) Ask(request acpsdk.RequestPermissionRequest, askID string) trace.Ask {
	call := request.ToolCall
	ask := trace.Ask{
		AskID: askID, AskKind: trace.AskPermission, ToolCallID: string(call.ToolCallId),
		Title: "Permission", Options: make([]trace.Option, 0, len(request.Options)),
	}
	known := t.tools[string(call.ToolCallId)]
	if known != nil {
		ask.ToolCallID = known.as
	}
	switch {
	case call.Title != nil && *call.Title != "":
		ask.Title = title(*call.Title)
	case known != nil && known.title != "":
		ask.Title = known.title
	}
	content, _ := parts(call.Content)
	input := value(call.RawInput, MaxArgs)
	if known != nil && len(content) == 0 {
		content = known.content
	}
	if known != nil && input == nil {
		input = known.args
	}
	ask.Text = bounded(t.shown(content), MaxAsk)
	if strings.TrimSpace(ask.Text) == "" {
		ask.Text = bounded(inputText(input), MaxAsk)
	}
	for _, option := range request.Options[:min(len(request.Options), maxOptions)] {
		ask.Options = append(ask.Options, trace.Option{
			ID: valid(string(option.OptionId)), Label: title(option.Name), Kind: optionKind(option.Kind),
		})
	}
	return ask
}

// maxOptions is how many options of a question are shown.
const maxOptions = 50

func optionKind(kind acpsdk.PermissionOptionKind) trace.OptionKind {
	known := []trace.OptionKind{trace.AllowOnce, trace.AllowAlways, trace.RejectOnce, trace.RejectAlways}
	if slices.Contains(known, trace.OptionKind(kind)) {
		return trace.OptionKind(kind)
	}
	return trace.Choice
}

// shown is a tool's content as text.
func (t *Translator) shown(content []part) string {
	var texts []string
	for _, p := range content {
		switch {
		case p.diff:
			texts = append(texts, diffText(p))
		case p.terminal != "":
			printed, _ := t.printed(p.terminal, MaxAsk)
			texts = append(texts, printed.Text())
		default:
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "\n")
}

// diffText is a change as lines: those that both texts begin and end with are left out.
func diffText(p part) string {
	var before []string
	if p.old != nil {
		before = textLines(*p.old)
	}
	after := textLines(p.text)
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	var text strings.Builder
	text.WriteString(p.path)
	for _, line := range before {
		text.WriteString("\n-" + line)
	}
	for _, line := range after {
		text.WriteString("\n+" + line)
	}
	return text.String()
}

func textLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// inputText is a tool's arguments as text: a command as it is typed, else indented JSON.
func inputText(input json.RawMessage) string {
	var fields struct {
		Command json.RawMessage `json:"command"`
	}
	if json.Unmarshal(input, &fields) == nil {
		var line string
		var words []string
		switch {
		case json.Unmarshal(fields.Command, &line) == nil:
			return line
		case json.Unmarshal(fields.Command, &words) == nil:
			return strings.Join(words, " ")
		}
	}
	var buffer bytes.Buffer
	if len(input) <= len("{}") || json.Indent(&buffer, input, "", "  ") != nil {
		return ""
	}
	return buffer.String()
}

// bounded is the beginning of a text, with a sign that there is more.
func bounded(text string, limit int) string {
	short := head(text, limit)
	if len(short) < len(text) {
		short += "\n…"
	}
	return short
}
