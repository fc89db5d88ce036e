package transcript

import (
	"encoding/json"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// claudeRecord is one line of Claude Code's JSONL, as far as it is understood.
type claudeRecord struct {
	Type       string          `json:"type"`
	Subtype    string          `json:"subtype"`
	UUID       string          `json:"uuid"`
	SessionID  string          `json:"sessionId"`
	AgentID    string          `json:"agentId"`
	Timestamp  json.RawMessage `json:"timestamp"`
	Sidechain  bool            `json:"isSidechain"`
	Meta       bool            `json:"isMeta"`
	Compact    bool            `json:"isCompactSummary"`
	APIError   bool            `json:"isApiErrorMessage"`
	Message    *claudeMessage  `json:"message"`
	ToolResult json.RawMessage `json:"toolUseResult"`

	Summary     string          `json:"summary"`
	CustomTitle string          `json:"customTitle"`
	AITitle     string          `json:"aiTitle"`
	Data        json.RawMessage `json:"data"`
	ParentTool  string          `json:"parentToolUseID"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
	Usage   *claudeUsage    `json:"usage"`
}

type claudeUsage struct {
	Input     int64 `json:"input_tokens"`
	CacheMade int64 `json:"cache_creation_input_tokens"`
	CacheRead int64 `json:"cache_read_input_tokens"`
	Output    int64 `json:"output_tokens"`

	messageID string
	agent     string
	parent    string
}

// claudeAgentProgress is what a running sub-agent reports into its parent's transcript.
type claudeAgentProgress struct {
	Type    string        `json:"type"`
	AgentID string        `json:"agentId"`
	Message *claudeRecord `json:"message"`
}

// maxAgents bounds how many sub-agents may speak at once with usage that is not told yet.
const maxAgents = 256

// claude understands Claude Code's records.
type claude struct {
	*draft

	own     string // agentId of the file, when the file is a sub-agent's: it is the main one here
	started bool
	local   bool // what follows is output of a command that no model saw
	// pending is the usage of the last message of each agent. A message is written in several records, and the
	// last one has the final numbers.
	pending map[string]*claudeUsage
}

func newClaude(d *draft) *claude { return &claude{draft: d, pending: map[string]*claudeUsage{}} }

func (c *claude) record() {
	var record claudeRecord
	if json.Unmarshal(c.raw, &record) != nil {
		c.identify("")
		c.keep(typeOf(c.raw))
		return
	}
	c.identify(record.UUID)
	c.at(record.Timestamp)
	c.recognise(record)
	switch {
	case record.Type == "progress" && c.progress(record):
	case record.Message != nil && (record.Type == "user" || record.Type == "assistant"):
		agent := ""
		if record.Sidechain && (c.own == "" || record.AgentID != c.own) {
			agent = orElse(record.AgentID, "side")
		}
		c.speak(record, agent, "")
	default:
		c.other(record)
	}
}

// recognise learns whose transcript it is from the first record that says.
func (c *claude) recognise(record claudeRecord) {
	if c.id == "" && record.SessionID != "" {
		c.id = record.SessionID
	}
	if !c.started && record.Message != nil && record.UUID != "" {
		c.started = true
		if record.Sidechain && record.AgentID != "" {
			c.own, c.id = record.AgentID, c.id+":"+record.AgentID
		}
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// progress understands what a running sub-agent reports, and nothing else of this kind.
func (c *claude) progress(record claudeRecord) bool {
	var report claudeAgentProgress
	if json.Unmarshal(record.Data, &report) != nil || report.Type != "agent_progress" {
		return false
	}
	said := report.Message
	if said == nil || said.Message == nil || said.Type != "user" && said.Type != "assistant" {
		return false
	}
	c.speak(*said, orElse(plainAgent(report.AgentID), "side"), record.ParentTool)
	return true
}

func plainAgent(id string) string { return clip(headline(id), 40) }

// speak understands a message of a person, of the agent, or of one of its sub-agents.
func (c *claude) speak(record claudeRecord, agent, parent string) {
	c.agent, c.parent = plainAgent(agent), parent
	if record.Type == "assistant" {
		c.assistant(record)
		return
	}
	c.user(record)
}

func (c *claude) assistant(record claudeRecord) {
	message := record.Message
	if record.APIError {
		c.failure(message)
		return
	}
	c.spend(message)
	if c.agent == "" && message.Model != "<synthetic>" {
		c.ensure()
		c.asks(message.Model)
	}
	var blocks []claudeBlock
	switch {
	case stringOf(message.Content) != "":
		c.says(stringOf(message.Content), false)
	case json.Unmarshal(message.Content, &blocks) != nil:
		c.keep(record.Type)
	default:
		c.assistantBlocks(blocks)
	}
}

// failure is a message that Claude Code wrote instead of the model.
func (c *claude) failure(message *claudeMessage) {
	said, _ := claudeTexts(message.Content)
	c.ensure()
	c.emit(trace.Failure{Message: c.voice(said)})
	if c.agent == "" {
		c.turn.failed = "the model could not be reached"
	}
}

func (c *claude) assistantBlocks(blocks []claudeBlock) {
	unknown := false
	for _, block := range blocks {
		switch block.Type {
		case "text":
			c.says(block.Text, false)
		case "thinking":
			c.says(block.Thinking, true)
		case "redacted_thinking":
			c.says("[redacted thinking]", true)
		case "tool_use", "server_tool_use", "mcp_tool_use":
			c.use(block)
		case "web_search_tool_result", "web_fetch_tool_result", "mcp_tool_result", "tool_result":
			c.result(block.ToolUseID, toolStatus(block.IsError), block.content())
		default:
			unknown = true
		}
	}
	if unknown {
		c.keep("assistant")
	}
}

func (c *claude) use(block claudeBlock) {
	c.call(block.ID, block.Name, callTitle(block.Input), block.Input)
	if block.Name == "TodoWrite" && c.agent == "" {
		if items, ok := claudeTodos(block.Input); ok {
			c.emit(trace.NewTodos(items, block.ID))
		}
	}
}

// other is a record that is no message: it is kept, and what it tells is learnt.
func (c *claude) other(record claudeRecord) {
	switch record.Type {
	case "summary":
		c.summed = orElse(c.summed, headline(record.Summary))
	case "ai-title":
		c.summed = orElse(headline(record.AITitle), c.summed)
	case "custom-title":
		c.named = orElse(headline(record.CustomTitle), c.named)
	}
	c.keep(orElse(record.Type, "unknown"))
	if record.Type == "system" && record.Subtype == "turn_duration" && !record.Sidechain {
		c.settle()
		c.endTurn()
	}
}

// spend notes what a message cost, and tells what the one before it did.
func (c *claude) spend(message *claudeMessage) {
	if message.Usage == nil || message.ID == "" {
		return
	}
	before := c.pending[c.agent]
	if before != nil && before.messageID != message.ID {
		c.tell(before)
	}
	if before == nil && len(c.pending) >= maxAgents {
		c.settle()
	}
	usage := *message.Usage
	usage.messageID, usage.agent, usage.parent = message.ID, c.agent, c.parent
	c.pending[c.agent] = &usage
}

// tell emits the usage of a message, once for each message of the file.
func (c *claude) tell(usage *claudeUsage) {
	if usage.Input+usage.CacheMade+usage.CacheRead+usage.Output == 0 {
		return
	}
	id := plainID(usage.messageID) + ":usage"
	if c.count(id) > 1 {
		return
	}
	agent, parent := c.agent, c.parent
	c.agent, c.parent = usage.agent, usage.parent
	cached := usage.CacheRead
	c.emitAs(id, trace.Usage{
		PromptTokens: usage.Input + usage.CacheMade + usage.CacheRead, CompletionTokens: usage.Output, CachedTokens: &cached,
	})
	c.agent, c.parent = agent, parent
}

// settleCall tells the usage of the sub-agents that a tool call started, when it is over.
func (c *claude) settleCall(id string) {
	for _, agent := range sortedKeys(c.pending) {
		if usage := c.pending[agent]; id != "" && usage.parent == id {
			c.tell(usage)
			delete(c.pending, agent)
		}
	}
}

// settle tells every usage that is not told yet, the main agent's first.
func (c *claude) settle() {
	for _, agent := range sortedKeys(c.pending) {
		c.tell(c.pending[agent])
	}
	clear(c.pending)
}

func (c *claude) end() {
	c.settle()
	c.finishFile()
}

// typeOf answers the type of a record that is of another shape than it should be.
func typeOf(raw []byte) string {
	var head struct {
		Type json.RawMessage `json:"type"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return "unknown"
	}
	return orElse(stringOf(head.Type), "unknown")
}

// claudeTodos reads the list of a TodoWrite call.
func claudeTodos(input json.RawMessage) ([]trace.Todo, bool) {
	var list struct {
		Todos []struct {
			ID      json.RawMessage `json:"id"`
			Content string          `json:"content"`
			Status  string          `json:"status"`
		} `json:"todos"`
	}
	if json.Unmarshal(input, &list) != nil || list.Todos == nil {
		return nil, false
	}
	items := make([]trace.Todo, 0, len(list.Todos))
	for i, todo := range list.Todos {
		items = append(items, todoItem(i, stringOf(todo.ID), todo.Content, todo.Status))
	}
	return items, true
}

// interruption is how Claude Code writes down that a person stopped it.
const interruption = "[Request interrupted by user"

func isInterruption(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), interruption)
}
