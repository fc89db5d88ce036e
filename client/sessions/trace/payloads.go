package trace

import "encoding/json"

// The kinds of the vocabulary.
const (
	KindTurnStart     = "turn_start"
	KindTurnEnd       = "turn_end"
	KindStepStart     = "step_start"
	KindReqStart      = "req_start"
	KindLocalGen      = "local_gen"
	KindUser          = "user"
	KindAssistant     = "assistant"
	KindToolStart     = "tool_start"
	KindToolCall      = "tool_call"
	KindToolResult    = "tool_result"
	KindAsk           = "ask"
	KindAskResolved   = "ask_resolved"
	KindControlResult = "control_result"
	KindWaitUser      = "wait_user"
	KindScreenWait    = "screen_wait"
	KindRunState      = "run_state"
	KindTodos         = "todos"
	KindUsage         = "usage"
	KindDeadline      = "deadline"
	KindError         = "error"
	// KindAgentSession is ours, beside the vocabulary of the specification.
	KindAgentSession = "agent_session"
)

// TurnStart opens a turn, by a `send` control or on the device itself.
type TurnStart struct {
	Text      string `json:"text"`
	ControlID string `json:"control_id,omitempty"`
}

// Kind answers "turn_start".
func (TurnStart) Kind() string { return KindTurnStart }

// TurnStatus is how a turn ended.
type TurnStatus string

// The statuses.
const (
	TurnCompleted TurnStatus = "completed"
	TurnCancelled TurnStatus = "cancelled"
	TurnFailed    TurnStatus = "failed"
)

// TurnEnd closes a turn.
type TurnEnd struct {
	Status TurnStatus `json:"status"`
	Reason string     `json:"reason,omitempty"`
}

// Kind answers "turn_end".
func (TurnEnd) Kind() string { return KindTurnEnd }

// StepStart opens a step of a turn; steps count from 1.
type StepStart struct {
	Step int `json:"step"`
}

// Kind answers "step_start".
func (StepStart) Kind() string { return KindStepStart }

// ReqStart says that a model was asked.
type ReqStart struct {
	Model string `json:"model,omitempty"`
}

// Kind answers "req_start".
func (ReqStart) Kind() string { return KindReqStart }

// LocalGen says that a model on the device generates.
type LocalGen struct {
	Model string `json:"model,omitempty"`
}

// Kind answers "local_gen".
func (LocalGen) Kind() string { return KindLocalGen }

// User is what a person said.
type User struct {
	Text string `json:"text"`
}

// Kind answers "user".
func (User) Kind() string { return KindUser }

// Assistant is a piece of what the agent says or, with Thought, thinks. Pieces append; Final closes them.
type Assistant struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought,omitempty"`
	Final   bool   `json:"final"`
}

// Kind answers "assistant".
func (Assistant) Kind() string { return KindAssistant }

// ToolStart announces a tool call, before its arguments are complete.
type ToolStart struct {
	ToolCallID string `json:"tool_call_id"`
	Name       string `json:"name"`
	Title      string `json:"title,omitempty"`
	ToolKind   string `json:"tool_kind,omitempty"`
}

// Kind answers "tool_start".
func (ToolStart) Kind() string { return KindToolStart }

// ToolCall is a tool call with its arguments, which may be any JSON.
type ToolCall struct {
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
}

// Kind answers "tool_call".
func (ToolCall) Kind() string { return KindToolCall }

// ToolStatus is how a tool call ended.
type ToolStatus string

// The statuses.
const (
	ToolOK        ToolStatus = "ok"
	ToolError     ToolStatus = "error"
	ToolCancelled ToolStatus = "cancelled"
)

// ToolResult ends a tool call.
type ToolResult struct {
	ToolCallID string     `json:"tool_call_id"`
	Status     ToolStatus `json:"status"`
	Content    []Content  `json:"content"`
	Truncated  bool       `json:"truncated,omitempty"`
}

// Kind answers "tool_result".
func (ToolResult) Kind() string { return KindToolResult }

// AskKind is what a question is about.
type AskKind string

// The kinds of question.
const (
	AskPermission AskKind = "permission"
	AskQuestion   AskKind = "question"
)

// OptionKind is what an option of a question means.
type OptionKind string

// The kinds of option.
const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
	Choice       OptionKind = "choice"
)

// Option is one answer that a question offers.
type Option struct {
	ID    string     `json:"id"`
	Label string     `json:"label"`
	Kind  OptionKind `json:"kind"`
}

// Ask is a question to whoever steers the session.
type Ask struct {
	AskID      string   `json:"ask_id"`
	AskKind    AskKind  `json:"ask_kind"`
	ToolCallID string   `json:"tool_call_id,omitempty"`
	Title      string   `json:"title"`
	Text       string   `json:"text,omitempty"`
	Options    []Option `json:"options"`
}

// Kind answers "ask".
func (Ask) Kind() string { return KindAsk }

// AskOutcome is how a question was settled.
type AskOutcome string

// The outcomes.
const (
	AskSelected  AskOutcome = "selected" // an option was taken
	AskText      AskOutcome = "text"     // free text
	AskCancelled AskOutcome = "cancelled"
	AskExpired   AskOutcome = "expired"
)

// AskResolved settles a question.
type AskResolved struct {
	AskID      string     `json:"ask_id"`
	Outcome    AskOutcome `json:"outcome"`
	OptionID   string     `json:"option_id,omitempty"`
	Text       string     `json:"text,omitempty"`
	ControlID  string     `json:"control_id,omitempty"`
	ByDeviceID string     `json:"by_device_id,omitempty"`
	Reason     string     `json:"reason,omitempty"`
}

// Kind answers "ask_resolved".
func (AskResolved) Kind() string { return KindAskResolved }

// ControlOutcome is what became of a control.
type ControlOutcome string

// The outcomes.
const (
	ControlApplied    ControlOutcome = "applied"
	ControlRejected   ControlOutcome = "rejected"
	ControlSuperseded ControlOutcome = "superseded"
	ControlExpired    ControlOutcome = "expired"
	// ControlQueued is not the end: the control waits, for an answer to BlockedByAskID when that is set. Another outcome or its
	// turn_start follows.
	ControlQueued ControlOutcome = "queued"
)

// ControlResult says what became of a control.
type ControlResult struct {
	ControlID      string         `json:"control_id"`
	Outcome        ControlOutcome `json:"outcome"`
	Reason         string         `json:"reason,omitempty"`
	BlockedByAskID string         `json:"blocked_by_ask_id,omitempty"`
}

// Kind answers "control_result".
func (ControlResult) Kind() string { return KindControlResult }

// WaitUser says that the agent waits for a person.
type WaitUser struct {
	AskID string `json:"ask_id,omitempty"`
}

// Kind answers "wait_user".
func (WaitUser) Kind() string { return KindWaitUser }

// ScreenWait says that the agent waits for the device's screen, and its place in the queue.
type ScreenWait struct {
	Position int `json:"position"`
}

// Kind answers "screen_wait".
func (ScreenWait) Kind() string { return KindScreenWait }

// State is whether a turn goes on.
type State string

// The states.
const (
	StatePaused  State = "paused"
	StateRunning State = "running"
)

// RunState says that a turn was paused or goes on.
type RunState struct {
	State State `json:"state"`
}

// Kind answers "run_state".
func (RunState) Kind() string { return KindRunState }

// MaxTodos is the most items of Todos.
const MaxTodos = 50

// TodoStatus is how far an item is.
type TodoStatus string

// The statuses.
const (
	TodoNotStarted TodoStatus = "not-started"
	TodoInProgress TodoStatus = "in-progress"
	TodoCompleted  TodoStatus = "completed"
)

// A Todo is one item of an agent's list.
type Todo struct {
	ID     string     `json:"id"`
	Title  string     `json:"title"`
	Status TodoStatus `json:"status"`
}

// TodosSource is who wrote a list.
type TodosSource string

// The sources.
const (
	TodosTool TodosSource = "tool"
	TodosUser TodosSource = "user"
)

// Todos is the whole list: the last one replaces the panel and is no row of the transcript. NewTodos counts.
type Todos struct {
	Items      []Todo      `json:"items"`
	Source     TodosSource `json:"source"`
	ToolCallID string      `json:"tool_call_id,omitempty"` // with TodosTool only
	Done       int         `json:"done"`
	Total      int         `json:"total"`
}

// Kind answers "todos".
func (Todos) Kind() string { return KindTodos }

// NewTodos makes a list from a tool call, or from a person when toolCallID is "". It keeps the first 50 items;
// done and total count what is kept.
func NewTodos(items []Todo, toolCallID string) Todos {
	kept := append([]Todo{}, items[:min(len(items), MaxTodos)]...)
	list := Todos{Items: kept, Source: TodosUser, ToolCallID: toolCallID, Total: len(kept)}
	if toolCallID != "" {
		list.Source = TodosTool
	}
	for _, item := range kept {
		if item.Status == TodoCompleted {
			list.Done++
		}
	}
	return list
}

// Usage is what a model call cost.
type Usage struct {
	PromptTokens     int64  `json:"prompt_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	CachedTokens     *int64 `json:"cached_tokens,omitempty"`
	CostMicroUSD     *int64 `json:"cost_micro_usd,omitempty"` // millionths of a US dollar
}

// Kind answers "usage".
func (Usage) Kind() string { return KindUsage }

// Budget is which limit of time ran out.
type Budget string

// The budgets.
const (
	BudgetRequest Budget = "request"
	BudgetTool    Budget = "tool"
	BudgetTurn    Budget = "turn"
)

// Deadline says that a limit of time ran out.
type Deadline struct {
	Budget Budget `json:"budget"`
	MS     int64  `json:"ms"`
}

// Kind answers "deadline".
func (Deadline) Kind() string { return KindDeadline }

// Failure says that something went wrong; its kind is "error".
type Failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// Kind answers "error".
func (Failure) Kind() string { return KindError }

// AgentSession says which agent works from here on, and as which of its own sessions, so that a later executor can have it loaded.
// It belongs to no turn.
type AgentSession struct {
	Agent     string `json:"agent"`
	SessionID string `json:"session_id"`
	Loaded    bool   `json:"loaded"` // it goes on from before
}

// Kind answers "agent_session".
func (AgentSession) Kind() string { return KindAgentSession }
