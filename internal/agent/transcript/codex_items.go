package transcript

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/translate"
)

// codexItem is one thing that the model said or saw.
type codexItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	Name      string          `json:"name"`
	CallID    string          `json:"call_id"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	Action    json.RawMessage `json:"action"`
	Status    string          `json:"status"`
}

// codexPart is one part of a message or of an output.
type codexPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// codexCall is a call whose output may tell of a changed file.
type codexCall struct{ patch string }

// Bounds of the patches that are remembered until their output comes.
const (
	maxPatches = 64
	maxPatch   = 1 << 20
)

func (c *codex) item(raw json.RawMessage, name string) {
	var item codexItem
	if json.Unmarshal(raw, &item) != nil {
		c.keep(name + "." + typeOf(raw))
		return
	}
	switch item.Type {
	case "message":
		c.message(item)
	case "reasoning":
		c.reasoning(item)
	case "function_call":
		c.function(item)
	case "custom_tool_call":
		c.custom(item)
	case "local_shell_call":
		c.called(orElse(item.CallID, item.ID), "local_shell", item.Action)
	case "web_search_call":
		id := c.called(orElse(item.CallID, item.ID), "web_search", item.Action)
		if item.Status == "completed" {
			c.result(id, trace.ToolOK, nil)
		}
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		c.output(item)
	default:
		c.keep("response_item." + orElse(item.Type, "unknown"))
	}
}

func (c *codex) message(item codexItem) {
	said := codexText(item.Content)
	switch item.Role {
	case "user":
		c.prompted(said, toModel, "response_item.message")
	case "assistant":
		c.spoke(said, false, toModel)
	default:
		c.keep("response_item.message")
	}
}

// codexText joins the texts of a content, with a word for what is none.
func codexText(content json.RawMessage) string {
	if said := stringOf(content); said != "" {
		return said
	}
	var parts []codexPart
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	said := make([]string, 0, len(parts))
	for _, part := range parts {
		switch {
		case part.Text != "":
			said = append(said, part.Text)
		case part.Type == "input_image":
			said = append(said, "[image]")
		}
	}
	return strings.Join(said, "\n")
}

// reasoning tells the summaries, part by part as they were shown; sealed reasoning has nothing to tell and is kept.
func (c *codex) reasoning(item codexItem) {
	told := false
	for _, source := range []json.RawMessage{item.Summary, item.Content} {
		var parts []codexPart
		if json.Unmarshal(source, &parts) != nil {
			continue
		}
		for _, part := range parts {
			c.spoke(part.Text, true, toModel)
			told = told || part.Text != ""
		}
	}
	if !told {
		c.keep("response_item.reasoning")
	}
}

// function is a call whose arguments are JSON in a text.
func (c *codex) function(item codexItem) {
	arguments := item.Arguments
	if inside := stringOf(arguments); json.Valid([]byte(inside)) && translate.Depth([]byte(inside)) < maxArgumentDepth {
		arguments = json.RawMessage(inside)
	}
	id := c.called(item.CallID, item.Name, arguments)
	if item.Name != "update_plan" {
		return
	}
	if items, ok := codexPlan(arguments); ok {
		c.emit(trace.NewTodos(items, id))
	}
}

// maxArgumentDepth keeps arguments that were a text from nesting a payload too deep.
const maxArgumentDepth = 256

func (c *codex) custom(item codexItem) {
	id := c.called(item.CallID, item.Name, item.Input)
	patch := stringOf(item.Input)
	if item.Name == "apply_patch" && len(patch) <= maxPatch && len(c.patches) < maxPatches {
		c.patches[id] = codexCall{patch}
	}
}

// called makes a call and answers its id.
func (c *codex) called(id, name string, arguments json.RawMessage) string {
	if id == "" {
		id = c.base
	}
	name = orElse(name, "tool")
	c.call(id, name, callTitle(arguments), arguments)
	return id
}

func codexPlan(arguments json.RawMessage) ([]trace.Todo, bool) {
	var list struct {
		Plan []struct {
			Step   string `json:"step"`
			Status string `json:"status"`
		} `json:"plan"`
	}
	if json.Unmarshal(arguments, &list) != nil || list.Plan == nil {
		return nil, false
	}
	items := make([]trace.Todo, 0, len(list.Plan))
	for i, step := range list.Plan {
		items = append(items, todoItem(i, "", step.Step, step.Status))
	}
	return items, true
}

// codexOutput is what a tool answered, in its several shapes.
type codexOutput struct {
	Output   *string `json:"output"`
	Content  *string `json:"content"`
	Success  *bool   `json:"success"`
	Metadata *struct {
		ExitCode *int `json:"exit_code"`
	} `json:"metadata"`
}

var codexExit = regexp.MustCompile(`(?m)^(?:Process exited with code|Exit code:) (-?\d{1,6})$`)

func (c *codex) output(item codexItem) {
	said, exit, failed := codexAnswer(item.Output)
	status := toolStatus(failed || exit != nil && *exit != 0)
	if strings.HasPrefix(said, "aborted by user") {
		status = trace.ToolCancelled
	}
	content := []trace.Content{trace.TextContent(said)}
	if exit != nil {
		content[0] = trace.TerminalContent(said, exit)
	}
	if call, known := c.patches[item.CallID]; known {
		delete(c.patches, item.CallID)
		if status == trace.ToolOK {
			content = append(patchDiffs(call.patch), content...)
		}
	}
	c.result(item.CallID, status, content)
}

// codexAnswer reads an output: a text, JSON in a text, an object, or parts.
func codexAnswer(raw json.RawMessage) (said string, exit *int, failed bool) {
	said = stringOf(raw)
	shape := raw
	if strings.HasPrefix(said, "{") {
		shape = json.RawMessage(said)
	}
	var answer codexOutput
	if json.Unmarshal(shape, &answer) == nil && (answer.Output != nil || answer.Content != nil) {
		if answer.Metadata != nil {
			exit = answer.Metadata.ExitCode
		}
		said = ""
		for _, part := range []*string{answer.Output, answer.Content} {
			if part != nil {
				said += *part
			}
		}
		return said, exit, answer.Success != nil && !*answer.Success
	}
	if said == "" {
		said = codexText(raw)
	}
	if said == "" && len(raw) > 0 && isObject(raw) {
		said = string(raw)
	}
	head := said[:min(len(said), 1<<10)]
	if found := codexExit.FindStringSubmatch(head); found != nil {
		if code, err := strconv.Atoi(found[1]); err == nil {
			exit = &code
		}
	}
	return said, exit, false
}

// patchReader reads the changes of an apply_patch call, hunk by hunk.
type patchReader struct {
	diffs         []trace.Content
	path          string // of the file, or "" for one without text
	added         bool
	before, after []string
}

// patchDiffs answers the changes of a patch: for each file one change for each hunk.
func patchDiffs(patch string) []trace.Content {
	var p patchReader
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "*** End of File", strings.HasPrefix(line, "*** Move to: "):
		case strings.HasPrefix(line, "***"):
			p.flush()
			p.file(line)
		case strings.HasPrefix(line, "@@"):
			p.flush()
		case strings.HasPrefix(line, "+"):
			p.after = append(p.after, line[1:])
		case strings.HasPrefix(line, "-"):
			p.before = append(p.before, line[1:])
		case strings.HasPrefix(line, " "):
			p.before, p.after = append(p.before, line[1:]), append(p.after, line[1:])
		}
	}
	p.flush()
	return p.diffs
}

func (p *patchReader) file(line string) {
	if path, found := strings.CutPrefix(line, "*** Add File: "); found {
		p.path, p.added = path, true
		return
	}
	p.path, p.added = "", false
	if path, found := strings.CutPrefix(line, "*** Update File: "); found {
		p.path = path
	}
}

// flush ends a hunk.
func (p *patchReader) flush() {
	if p.path != "" && len(p.before)+len(p.after) > 0 {
		old := strings.Join(p.before, "\n")
		from := &old
		if p.added {
			from = nil
		}
		p.diffs = append(p.diffs, trace.DiffContent(p.path, from, strings.Join(p.after, "\n")))
	}
	p.before, p.after = nil, nil
}
