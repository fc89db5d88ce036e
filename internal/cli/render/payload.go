package render

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// payloadRow answers what a payload of the trace vocabulary says.
func (r Renderer) payloadRow(payload trace.Payload) row {
	switch p := payload.(type) {
	case trace.TurnStart:
		return row{mark: "▶", label: "turn", text: p.Text, style: bold, most: longestSpeech}
	case trace.TurnEnd:
		return turnEndRow(p)
	case trace.StepStart:
		return background("step", strconv.Itoa(p.Step))
	case trace.ReqStart:
		return background("model", p.Model)
	case trace.LocalGen:
		return background("local", p.Model)
	case trace.User:
		return row{mark: "›", label: "user", text: p.Text, style: cyan, most: longestSpeech}
	case trace.Assistant:
		return assistantRow(p)
	case trace.ToolStart:
		return row{mark: "⚙", label: "tool", text: withReason(p.Name, p.Title), style: cyan, dim: true}
	case trace.ToolCall:
		return row{mark: "⚙", label: "call", text: p.Name + " " + string(p.Args), style: cyan}
	case trace.ToolResult:
		return resultRow(p)
	case trace.Ask:
		return askRow(p)
	case trace.AskResolved:
		return r.resolvedRow(p)
	case trace.ControlResult:
		return row{
			mark: "«", label: "outcome", text: withReason(p.ControlID+" "+string(p.Outcome), p.Reason+blockedBy(p)), style: magenta, dim: true,
		}
	case trace.WaitUser:
		return row{mark: "?", label: "waits", text: strings.TrimSpace("for a person " + p.AskID), style: yellow}
	case trace.ScreenWait:
		return background("waits", fmt.Sprintf("for the screen, number %d", p.Position))
	case trace.RunState:
		return row{mark: "‖", label: "run", text: string(p.State), style: magenta}
	case trace.Todos:
		return todosRow(p)
	case trace.Usage:
		return usageRow(p)
	case trace.Deadline:
		limit := time.Duration(p.MS) * time.Millisecond
		return row{mark: "✗", label: "deadline", text: fmt.Sprintf("%s took longer than %s", p.Budget, limit), style: red}
	case trace.Failure:
		return row{mark: "✗", label: "error", text: withReason(p.Message, p.Code), style: red, most: longestSpeech}
	case trace.AgentSession:
		if p.Loaded {
			return background("agent", p.Agent+" goes on")
		}
		return background("agent", p.Agent)
	case trace.Unknown:
		return background(p.Name, string(p.Raw))
	default:
		return background(payload.Kind(), "")
	}
}

// background is a line that is seldom of interest.
func background(label, text string) row {
	return row{mark: "·", label: label, text: text, style: faint, dim: true}
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + " (" + reason + ")"
}

func blockedBy(p trace.ControlResult) string {
	if p.BlockedByAskID == "" {
		return ""
	}
	return " first answer " + p.BlockedByAskID
}

func turnEndRow(p trace.TurnEnd) row {
	shown := row{mark: "■", label: "turn", text: withReason(string(p.Status), p.Reason), style: bold}
	switch p.Status {
	case trace.TurnCompleted:
		shown.style = green
	case trace.TurnFailed:
		shown.style = red
	case trace.TurnCancelled:
		shown.style = yellow
	}
	return shown
}

func assistantRow(p trace.Assistant) row {
	if p.Text == "" {
		return row{skip: true}
	}
	if p.Thought {
		return row{mark: "‹", label: "thinks", text: p.Text, style: faint, dim: true, most: longestSpeech}
	}
	return row{mark: "‹", label: "agent", text: p.Text, style: green, most: longestSpeech}
}

func resultRow(p trace.ToolResult) row {
	parts := make([]string, 0, len(p.Content))
	for _, content := range p.Content {
		parts = append(parts, contentText(content))
	}
	text := strings.Join(parts, " | ")
	if p.Truncated {
		text = "(cut) " + text
	}
	switch p.Status {
	case trace.ToolError:
		return row{mark: "✗", label: "result", text: text, style: red}
	case trace.ToolCancelled:
		return row{mark: "–", label: "result", text: "cancelled " + text, style: yellow}
	default:
		return row{mark: "✓", label: "result", text: text, style: cyan, dim: true}
	}
}

func contentText(content trace.Content) string {
	switch content.Type {
	case trace.ContentText:
		return content.Text()
	case trace.ContentTerminal:
		return "$ " + content.Text()
	case trace.ContentDiff:
		var diff struct {
			Path string `json:"path"`
		}
		if json.Unmarshal(content.Raw, &diff) == nil {
			return "changed " + diff.Path
		}
	}
	return string(content.Raw)
}

func askRow(p trace.Ask) row {
	text := p.AskID + "  " + p.Title
	if p.Text != "" {
		text += " — " + p.Text
	}
	if len(p.Options) > 0 {
		options := make([]string, len(p.Options))
		for i, option := range p.Options {
			options[i] = option.Label + " [" + option.ID + "]"
		}
		text += "  " + strings.Join(options, " / ")
	}
	return row{mark: "?", label: "ASK", text: text, style: yellow, most: longestSpeech}
}

func (r Renderer) resolvedRow(p trace.AskResolved) row {
	text := p.AskID + " " + string(p.Outcome)
	switch p.Outcome {
	case trace.AskSelected:
		text = p.AskID + " → " + p.OptionID
	case trace.AskText:
		text = p.AskID + " → " + strconv.Quote(p.Text)
	case trace.AskCancelled, trace.AskExpired:
	}
	text = withReason(text, p.Reason)
	if p.ByDeviceID != "" {
		text += "  by " + r.device(p.ByDeviceID)
	}
	return row{mark: "!", label: "answer", text: text, style: yellow}
}

var todoMarks = map[trace.TodoStatus]string{
	trace.TodoCompleted: "✔ ", trace.TodoInProgress: "▸ ", trace.TodoNotStarted: "○ ",
}

func todosRow(p trace.Todos) row {
	items := make([]string, len(p.Items))
	for i, item := range p.Items {
		items[i] = todoMarks[item.Status] + item.Title
	}
	text := fmt.Sprintf("%d/%d  %s", p.Done, p.Total, strings.Join(items, "  "))
	return row{mark: "☑", label: "todos", text: text, style: cyan, most: longestSpeech}
}

const microsPerDollar = 1_000_000

func usageRow(p trace.Usage) row {
	text := fmt.Sprintf("%d tokens in, %d out", p.PromptTokens, p.CompletionTokens)
	if p.CachedTokens != nil {
		text += fmt.Sprintf(", %d cached", *p.CachedTokens)
	}
	if p.CostMicroUSD != nil {
		text += fmt.Sprintf(", %.4f USD", float64(*p.CostMicroUSD)/microsPerDollar)
	}
	return background("usage", text)
}
