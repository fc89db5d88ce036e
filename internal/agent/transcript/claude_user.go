package transcript

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// claudeBlock is one part of a message's content.
type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Source    struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
	} `json:"source"`
}

// user understands a record of the user's side: a prompt, results of tools, or what Claude Code put there itself.
func (c *claude) user(record claudeRecord) {
	if said := stringOf(record.Message.Content); said != "" {
		c.heard(record, said)
		return
	}
	var blocks []claudeBlock
	if json.Unmarshal(record.Message.Content, &blocks) != nil {
		c.keep(record.Type)
		return
	}
	results := 0
	for _, block := range blocks {
		if block.Type == "tool_result" {
			results++
		}
	}
	for _, block := range blocks {
		if block.Type == "tool_result" {
			c.toolResult(block, record.ToolResult, results == 1)
		}
	}
	said, complete := claudeTexts(record.Message.Content)
	switch {
	case said != "":
		c.heard(record, said)
	case results == 0, !complete:
		c.keep(record.Type)
	}
}

// heard understands text on the user's side.
func (c *claude) heard(record claudeRecord, said string) {
	command, local := slashCommand(said)
	switch {
	case record.Compact:
		c.emit(trace.User{Text: c.voice("[conversation compacted] " + said)})
	case isInterruption(said):
		c.interrupted()
	case record.Meta:
		c.local = strings.HasPrefix(said, "<local-command-caveat>") || strings.HasPrefix(said, "Caveat: The messages below")
		c.keep(record.Type)
	case c.agent != "":
		c.ensure()
		c.emit(trace.User{Text: c.voice(said)})
	case isOutput(said):
		c.keep(record.Type)
	case local || command != "" && c.local:
		c.local = false
		c.emit(trace.User{Text: command})
	default:
		c.local = false
		c.settle()
		c.start(orElse(command, said))
	}
}

func (c *claude) interrupted() {
	if c.agent != "" {
		c.emit(trace.User{Text: c.voice(interruption + "]")})
		return
	}
	c.settle()
	if c.turn.id == "" {
		c.keep("user")
		return
	}
	c.finish(trace.TurnCancelled, "interrupted by the user")
}

// outputs are what Claude Code writes on the user's side when commands of a person's own ran.
var outputs = []string{"<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>", "<task-notification>", "<system-reminder>"}

func isOutput(said string) bool {
	for _, tag := range outputs {
		if strings.HasPrefix(said, tag) {
			return true
		}
	}
	return false
}

// slashCommand answers the command that a person typed, as it was typed, and whether no model saw it.
func slashCommand(said string) (command string, local bool) {
	if input, found := tagged(said, "bash-input"); found && strings.HasPrefix(said, "<bash-input>") {
		return "! " + input, true
	}
	if !strings.HasPrefix(said, "<command-") {
		return "", false
	}
	name, _ := tagged(said, "command-name")
	arguments, _ := tagged(said, "command-args")
	command = strings.TrimSpace(name + " " + strings.TrimSpace(arguments))
	return command, strings.HasPrefix(said, "<command-name>") && command != ""
}

func tagged(text, tag string) (string, bool) {
	_, after, found := strings.Cut(text, "<"+tag+">")
	if !found {
		return "", false
	}
	inside, _, found := strings.Cut(after, "</"+tag+">")
	return inside, found
}

// claudeTexts joins the texts of a content, with a word for what is none, and answers whether all of it is understood.
// Results of tools are no texts.
func claudeTexts(content json.RawMessage) (text string, complete bool) {
	if said := stringOf(content); said != "" {
		return said, true
	}
	var blocks []claudeBlock
	if json.Unmarshal(content, &blocks) != nil {
		return "", false
	}
	complete = true
	var parts []string
	for _, block := range blocks {
		switch block.Type {
		case "text":
			parts = append(parts, block.Text)
		case "image":
			parts = append(parts, "[image "+orElse(block.Source.MediaType, block.Source.Type)+"]")
		case "document":
			parts = append(parts, "[document "+strings.TrimSpace(block.Title+" "+block.Source.MediaType)+"]")
		case "tool_result":
		default:
			complete = false
		}
	}
	return strings.Join(parts, "\n"), complete
}

// content answers the content of a tool's result.
func (b claudeBlock) content() []trace.Content {
	if said := stringOf(b.Content); said != "" {
		return []trace.Content{trace.TextContent(said)}
	}
	var blocks []claudeBlock
	if json.Unmarshal(b.Content, &blocks) != nil {
		if len(b.Content) > 0 && isObject(b.Content) {
			return []trace.Content{trace.TextContent(string(b.Content))}
		}
		return nil
	}
	contents := make([]trace.Content, 0, len(blocks))
	for _, block := range blocks {
		switch block.Type {
		case "text":
			contents = append(contents, trace.TextContent(block.Text))
		case "image":
			contents = append(contents, trace.TextContent("[image "+orElse(block.Source.MediaType, block.Source.Type)+"]"))
		default:
			contents = append(contents, trace.TextContent("["+orElse(block.Type, "content")+" "+block.Title+"]"))
		}
	}
	return contents
}

var exitCode = regexp.MustCompile(`^(?:Error: )?Exit code (\d{1,5})\b`)

// claudeOutcome is what Claude Code knows about a result beside what the model was told.
type claudeOutcome struct {
	Stdout      *string `json:"stdout"`
	Interrupted bool    `json:"interrupted"`
	FilePath    string  `json:"filePath"`
	OldString   *string `json:"oldString"`
	NewString   *string `json:"newString"`
	Content     *string `json:"content"`
	Original    *string `json:"originalFile"`
	Edits       []struct {
		Old string `json:"old_string"`
		New string `json:"new_string"`
	} `json:"edits"`
}

func (c *claude) toolResult(block claudeBlock, outcome json.RawMessage, only bool) {
	c.settleCall(block.ToolUseID)
	var known claudeOutcome
	if only && len(outcome) > 0 && isObject(outcome) {
		if json.Unmarshal(outcome, &known) != nil {
			known = claudeOutcome{}
		}
	}
	content := block.content()
	said := ""
	if len(content) == 1 {
		said = content[0].Text()
	}
	status := toolStatus(block.IsError)
	if known.Interrupted || block.IsError && isRejection(said) {
		status = trace.ToolCancelled
	}
	exit := exitCode.FindStringSubmatch(said)
	switch {
	case len(content) == 1 && exit != nil:
		code, err := strconv.Atoi(exit[1])
		if err == nil {
			content = []trace.Content{trace.TerminalContent(said, &code)}
		}
	case len(content) == 1 && known.Stdout != nil:
		content = []trace.Content{trace.TerminalContent(said, nil)}
	case !block.IsError:
		content = append(known.diffs(), content...)
	}
	c.result(block.ToolUseID, status, content)
}

// diffs are the changes of a file, where old and new text are there.
func (o claudeOutcome) diffs() []trace.Content {
	switch {
	case o.FilePath == "":
		return nil
	case o.OldString != nil && o.NewString != nil:
		return []trace.Content{trace.DiffContent(o.FilePath, o.OldString, *o.NewString)}
	case len(o.Edits) > 0:
		contents := make([]trace.Content, 0, len(o.Edits))
		for _, edit := range o.Edits {
			contents = append(contents, trace.DiffContent(o.FilePath, &edit.Old, edit.New))
		}
		return contents
	case o.Content != nil:
		return []trace.Content{trace.DiffContent(o.FilePath, o.Original, *o.Content)}
	default:
		return nil
	}
}

// isRejection recognises what Claude Code tells the model when a person refused a tool call or stopped it.
func isRejection(said string) bool {
	for _, begin := range []string{"The user doesn't want to", "The user does not want to", interruption, "The tool use was rejected"} {
		if strings.HasPrefix(said, begin) {
			return true
		}
	}
	return false
}

func toolStatus(failed bool) trace.ToolStatus {
	if failed {
		return trace.ToolError
	}
	return trace.ToolOK
}
