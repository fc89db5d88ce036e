package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// How far back the log is read at the start.
const (
	recoverPage  = 1000
	recoverPages = 20
)

// past is what the end of the log says to a new executor.
type past struct {
	openTurn string               // without its turn_end, or ""
	openAsks []trace.AskResolved  // the questions nobody settled, oldest first, as they are closed
	tools    []string             // the calls of the last turn without a result, oldest first
	said     map[string]bool      // controls of which it is said what became of them
	agent    string               // the agent's own session, or ""
	writer   string               // the device that executed last, or ""
	paused   bool                 // a pause holds
	ends     []utterance          // ascending: what people and agents said last
	size     int                  // of the texts in ends
	asked    map[string]trace.Ask // open while reading forward
}

// utterance is something that was said.
type utterance struct {
	payload trace.Payload
	size    int // of its text
}

// readPast reads the end of the log, back to where nothing older can matter: past the begin of the last turn, the oldest pending
// control and the agent's last session; and never more than recoverPages.
//
// What is left to be stored counts as stored.
func readPast(ctx context.Context, client *sessions.Client, ref, identity string, left []wire.IncomingEvent) (*past, error) {
	oldest, err := oldestPending(ctx, client, ref)
	if err != nil {
		return nil, err
	}
	var pages [][]wire.Event
	query := sessions.EventsQuery{Tail: recoverPage}
	for range recoverPages {
		page, err := client.Events(ctx, ref, query)
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		if len(page.Events) == 0 {
			break
		}
		open(page.Events, identity)
		pages = append(pages, page.Events)
		first := page.Events[0].Seq
		if first <= 1 || first <= oldest && enough(pages) {
			break
		}
		query = sessions.EventsQuery{Before: first, Limit: recoverPage}
	}
	slices.Reverse(pages)
	events := slices.Concat(pages...)
	for _, event := range left {
		events = append(events, wire.Event{Kind: event.Kind, TurnID: event.TurnID, SenderDeviceID: client.DeviceID(), Payload: event.Payload})
	}
	return fold(events), nil
}

func oldestPending(ctx context.Context, client *sessions.Client, ref string) (int64, error) {
	pending, err := client.Controls(ctx, ref, sessions.ControlsQuery{})
	if err != nil {
		return 0, fmt.Errorf("read pending controls: %w", err)
	}
	if len(pending) == 0 {
		return 1 << 62, nil
	}
	return pending[0].Seq, nil
}

// open opens sealed payloads in place; what cannot be opened stays as it is, and says nothing.
func open(events []wire.Event, identity string) {
	if identity == "" {
		return
	}
	for i := range events {
		if plain, err := sessions.Open(events[i].Payload, identity); err == nil {
			events[i].Payload = plain
		}
	}
}

func enough(pages [][]wire.Event) bool {
	turn, agent := false, false
	for _, page := range pages {
		for _, event := range page {
			turn = turn || event.Kind == trace.KindTurnStart
			agent = agent || event.Kind == trace.KindAgentSession
		}
	}
	return turn && agent
}

// fold answers what events, ascending, say.
func fold(events []wire.Event) *past {
	p := &past{said: map[string]bool{}, asked: map[string]trace.Ask{}}
	var order []string
	for _, event := range events {
		if event.Kind == wire.KindControl || event.Kind == wire.KindLeaseTransferred {
			continue
		}
		p.writer = event.SenderDeviceID
		if sessions.IsSealed(event.Payload) {
			p.takeSealed(event)
			continue
		}
		payload, err := trace.Read(event)
		if err != nil {
			continue // whoever wrote it meant something else
		}
		if ask, ok := payload.(trace.Ask); ok {
			order = append(order, ask.AskID)
		}
		p.take(event, payload)
	}
	for _, id := range order {
		if _, still := p.asked[id]; still {
			p.openAsks = append(p.openAsks, trace.AskResolved{AskID: id, Outcome: trace.AskExpired, Reason: lostReason})
		}
	}
	return p
}

// LostReason is the reason that the log gives for the end of what a dead executor left open: its turn, and what was asked in it.
const LostReason = "its executor was lost"

const lostReason = LostReason

// takeSealed takes what is in clear of an event that this device cannot open: which turn began, and which ended. The id of a turn
// is its control's, unless the control named it.
func (p *past) takeSealed(event wire.Event) {
	if event.TurnID == nil {
		return
	}
	switch event.Kind {
	case trace.KindTurnStart:
		p.openTurn = *event.TurnID
		p.said[*event.TurnID] = true
	case trace.KindTurnEnd:
		if *event.TurnID == p.openTurn {
			p.openTurn = ""
		}
	}
}

func (p *past) take(event wire.Event, payload trace.Payload) {
	switch payload := payload.(type) {
	case trace.TurnStart:
		if event.TurnID != nil {
			p.openTurn = *event.TurnID
		}
		p.tools = nil
		p.said[payload.ControlID] = true
		p.keep(payload, len(payload.Text))
	case trace.RunState:
		p.paused = payload.State == trace.StatePaused
	case trace.TurnEnd:
		if event.TurnID == nil || *event.TurnID == p.openTurn {
			p.openTurn = ""
		}
	case trace.Ask:
		p.asked[payload.AskID] = payload
	case trace.AskResolved:
		delete(p.asked, payload.AskID)
		p.said[payload.ControlID] = true
	case trace.ControlResult:
		if payload.Outcome != trace.ControlQueued {
			p.said[payload.ControlID] = true
		}
	case trace.AgentSession:
		p.agent = payload.SessionID
	case trace.User:
		p.keep(payload, len(payload.Text))
	case trace.Assistant:
		if !payload.Thought {
			p.keep(payload, len(payload.Text))
		}
	case trace.ToolStart:
		p.tools = append(p.tools, payload.ToolCallID)
		p.keep(payload, len(payload.Name)+len(payload.Title))
	case trace.ToolResult:
		p.tools = slices.DeleteFunc(p.tools, func(id string) bool { return id == payload.ToolCallID })
	}
}

// maxContext bounds the end of the transcript that an agent is given which does not know the session, in bytes of text.
const maxContext = 16 << 10

func (p *past) keep(payload trace.Payload, size int) {
	p.ends = append(p.ends, utterance{payload, size})
	p.size += size
	for p.size > maxContext && len(p.ends) > 1 {
		p.size -= p.ends[0].size
		p.ends = p.ends[1:]
	}
}

// context is the end of the transcript as a text for an agent that was not there, or "".
func (p *past) context() string {
	var lines strings.Builder
	for _, said := range p.ends {
		switch payload := said.payload.(type) {
		case trace.TurnStart:
			lines.WriteString("\n\nUser: " + payload.Text + "\n")
		case trace.User:
			lines.WriteString("\n\nUser: " + payload.Text + "\n")
		case trace.Assistant:
			lines.WriteString(payload.Text)
		case trace.ToolStart:
			lines.WriteString("\n[tool: " + strings.TrimSpace(payload.Name+" "+payload.Title) + "]\n")
		}
	}
	text := strings.TrimSpace(lines.String())
	if text == "" {
		return ""
	}
	if cut := len(text) - maxContext; cut > 0 {
		text = strings.ToValidUTF8(text[cut:], "")
	}
	return "This session was worked on before, by an agent whose memory you do not have. Its transcript ends so:\n\n<transcript>\n" +
		text + "\n</transcript>\n\nGo on from there. What is asked now:"
}
