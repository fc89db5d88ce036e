package transcript

import (
	"encoding/json"
	"hash/fnv"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// codexRecord is one line of a rollout: an envelope around an item, or, in older files, the item itself.
type codexRecord struct {
	Timestamp json.RawMessage `json:"timestamp"`
	Type      string          `json:"type"`
	Payload   json.RawMessage `json:"payload"`

	RecordType   string          `json:"record_type"` // older files only
	ID           string          `json:"id"`
	Instructions json.RawMessage `json:"instructions"`
	Git          json.RawMessage `json:"git"`
}

// codex understands Codex's rollouts.
//
// A rollout tells most things twice: as items that the model saw (response_item) and as what was shown to the person
// (event_msg), in either order. The second telling is recognised and left out.
type codex struct {
	*draft

	told    echoes
	spent   string               // the total of the last token_count
	patches map[string]codexCall // calls that are not answered yet
	source  byte                 // which side began the turn
}

// The two sides of a rollout.
const (
	toModel  byte = 'm'
	toPerson byte = 'p'
)

func newCodex(d *draft) *codex { return &codex{draft: d, patches: map[string]codexCall{}} }

func (c *codex) record() {
	c.identify("") // what has ids there has them again in forks
	var record codexRecord
	if json.Unmarshal(c.raw, &record) != nil {
		c.keep(typeOf(c.raw))
		return
	}
	c.at(record.Timestamp)
	switch {
	case record.RecordType != "":
		c.keep(record.RecordType)
	case record.Type == "":
		c.meta(record.ID)
		c.keep("session_meta")
	case record.Payload == nil:
		c.item(c.raw, record.Type) // an older file's, bare
	default:
		c.enveloped(record)
	}
}

func (c *codex) meta(id string) {
	if c.id == "" {
		c.id = id
	}
}

func (c *codex) enveloped(record codexRecord) {
	switch record.Type {
	case "session_meta":
		var meta struct {
			ID        string `json:"id"`
			SessionID string `json:"session_id"`
		}
		if json.Unmarshal(record.Payload, &meta) == nil {
			c.meta(orElse(meta.ID, meta.SessionID))
		}
		c.keep(record.Type)
	case "turn_context":
		var turn struct {
			Model string `json:"model"`
		}
		if json.Unmarshal(record.Payload, &turn) == nil {
			c.asks(turn.Model)
		}
		c.keep(record.Type)
	case "compacted":
		c.compacted(record)
	case "response_item":
		c.item(record.Payload, record.Type)
	case "event_msg":
		c.event(record.Payload)
	default:
		c.keep(record.Type)
	}
}

func (c *codex) compacted(record codexRecord) {
	var compacted struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(record.Payload, &compacted) == nil && compacted.Message != "" {
		c.emit(trace.User{Text: "[conversation compacted] " + compacted.Message})
	}
	c.keep(record.Type)
}

// codexEvent is what was shown to the person.
type codexEvent struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Text    string `json:"text"`
	Reason  string `json:"reason"`
	Info    *struct {
		Total json.RawMessage `json:"total_token_usage"`
		Last  *struct {
			Input  int64 `json:"input_tokens"`
			Cached int64 `json:"cached_input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"last_token_usage"`
	} `json:"info"`
}

func (c *codex) event(payload json.RawMessage) {
	var event codexEvent
	if json.Unmarshal(payload, &event) != nil {
		c.keep("event_msg." + typeOf(payload))
		return
	}
	switch event.Type {
	case "user_message":
		c.prompted(event.Message, toPerson, "event_msg.user_message")
	case "agent_message":
		c.spoke(event.Message, false, toPerson)
	case "agent_reasoning", "agent_reasoning_raw_content":
		c.spoke(event.Text, true, toPerson)
	case "token_count":
		c.tokens(event)
	case "task_complete", "turn_complete":
		c.keep("event_msg." + event.Type)
		c.endTurn()
	case "turn_aborted":
		c.keep("event_msg." + event.Type)
		c.finish(trace.TurnCancelled, orElse(event.Reason, "interrupted"))
	case "error":
		c.ensure()
		c.emit(trace.Failure{Message: event.Message})
		c.turn.failed = headline(event.Message)
	default:
		c.keep("event_msg." + orElse(event.Type, "unknown"))
	}
}

// tokens tells what a call of the model took. The same total again only repeats it, with new limits.
func (c *codex) tokens(event codexEvent) {
	if event.Info == nil || event.Info.Last == nil || string(event.Info.Total) == c.spent && c.spent != "" {
		c.keep("event_msg.token_count")
		return
	}
	c.spent = string(event.Info.Total)
	last := event.Info.Last
	c.emit(trace.Usage{PromptTokens: last.Input, CompletionTokens: last.Output, CachedTokens: &last.Cached})
}

// prompted is a message on the user's side, from one of the two tellings.
func (c *codex) prompted(said string, side byte, name string) {
	switch {
	case side == toModel && isScaffold(said), strings.TrimSpace(said) == "":
		c.keep(name)
	case c.told.again('u', strings.TrimSpace(said), side):
	case c.turn.fresh && c.source != side:
		c.keep(name) // the same prompt, with other words around it
	default:
		c.start(said)
		c.source = side
	}
}

// spoke is what the agent said or thought, from one of the two tellings.
func (c *codex) spoke(said string, thought bool, side byte) {
	kind := byte('a')
	if thought {
		kind = 't'
	}
	if !c.told.again(kind, strings.TrimSpace(said), side) {
		c.says(said, thought)
	}
}

// scaffolds begin what Codex itself puts on the user's side.
var scaffolds = []string{
	"<environment_context>", "<user_instructions>", "<permissions instructions>", "<permissions_instructions>", "<collaboration_mode>",
	"<multi_agent_mode>", "<apps_instructions>", "<turn_aborted>", "<user_shell_command>", "<skill>", "<subagent_notification>",
	"<skills_instructions>", "<plugins_instructions>", "<user_action>", "# AGENTS.md instructions", "<INSTRUCTIONS>",
}

func isScaffold(said string) bool {
	said = strings.TrimSpace(said)
	for _, begin := range scaffolds {
		if strings.HasPrefix(said, begin) {
			return true
		}
	}
	return false
}

func (c *codex) end() { c.finishFile() }

// maxEchoes bounds how far apart the two tellings of one thing may be.
const maxEchoes = 64

// echoes remembers what was told last, and by which side.
type echoes struct {
	told [maxEchoes]echo
	next int
}

type echo struct {
	hash uint64
	side byte // 0 for none
}

// again reports whether the other side told this before, and was not matched yet; otherwise it remembers it.
func (e *echoes) again(kind byte, said string, side byte) bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte{kind}) // never fails, as the next one
	_, _ = hash.Write([]byte(said))
	sum := hash.Sum64()
	for i := range e.told {
		if e.told[i].hash == sum && e.told[i].side != 0 && e.told[i].side != side {
			e.told[i].side = 0
			return true
		}
	}
	e.told[e.next] = echo{sum, side}
	e.next = (e.next + 1) % maxEchoes
	return false
}
