// Package view shows the demonstration: what happens in a session, and how far each of its followers is.
//
// Contract. A Scene is what is to be seen, as a value that events and notes are put into; Lines is a pure function from
// a Scene to lines of a terminal, no wider and no more than asked for. A Terminal draws such lines in place; Plain
// prints one line per event or note instead. Nothing that is shown can move the cursor: texts were made fit to print
// (internal/cli/render), and what was cut keeps its escape sequences whole.
//
// Order. Events are shown in the order of the log, each once, whoever told of them first.
//
// Bounds. A Scene keeps the newest 200 entries.
//
// Blocking and concurrency. Writing blocks as its writer does. Everything belongs to one goroutine.
package view

import (
	"strings"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const maxEntries = 200

// Device is a device that takes part.
type Device struct {
	ID   string
	Name string
}

// State is how a follower stands.
type State string

// The states.
const (
	Away    State = "not here yet"
	Live    State = "live"
	Offline State = "offline"
	Done    State = "complete"
)

// Follower is a device that follows the session's log.
type Follower struct {
	Device

	Via   string // how its events come
	State State
	Seq   int64 // of its last event
	Lost  int   // connections
}

// entry is one thing that happened: an event, or a note.
type entry struct {
	event *wire.Event
	note  string
}

// Scene is all that is shown.
type Scene struct {
	Title     string
	Engine    string // of the database
	Elapsed   time.Duration
	Followers []*Follower
	Render    render.Renderer

	names    *strings.Replacer
	devices  []Device
	entries  []entry
	lastSeq  int64
	todos    trace.Todos
	tokens   int64
	cost     int64 // millionths of a US dollar
	holder   string
	forced   bool
	presence map[string]bool // device to whether it drives; only those that are here
}

// New answers a Scene in which devices take part, none of which is here yet.
func New(title, engine string, devices []Device, r render.Renderer) *Scene {
	var names []string
	for _, device := range devices {
		names = append(names, short(device.ID), device.Name)
	}
	return &Scene{
		Title: title, Engine: engine, Render: r, devices: devices, presence: map[string]bool{},
		names: strings.NewReplacer(names...),
	}
}

// short is how render.Renderer shows the id of a device.
func short(id string) string { return "…" + id[len(id)-8:] }

// Follow adds a follower, which is not here yet.
func (s *Scene) Follow(device Device, via string) *Follower {
	follower := &Follower{Device: device, Via: via, State: Away}
	s.Followers = append(s.Followers, follower)
	return follower
}

// Follower answers the follower with a device id, or nil.
func (s *Scene) Follower(id string) *Follower {
	for _, follower := range s.Followers {
		if follower.ID == id {
			return follower
		}
	}
	return nil
}

// Name answers the name of a device.
func (s *Scene) Name(id string) string {
	for _, device := range s.devices {
		if device.ID == id {
			return device.Name
		}
	}
	return short(id)
}

// LastSeq answers the seq of the last event that is shown.
func (s *Scene) LastSeq() int64 { return s.lastSeq }

// Event takes the next event of the log, and reports whether it was news.
func (s *Scene) Event(event wire.Event) bool {
	if event.Seq != s.lastSeq+1 {
		return false // another follower told of it before, or will tell of those before it first
	}
	s.lastSeq = event.Seq
	payload, err := trace.Read(event)
	if err != nil {
		payload = trace.Unknown{}
	}
	switch payload := payload.(type) {
	case trace.Todos:
		s.todos = payload
	case trace.Usage:
		s.tokens += payload.PromptTokens + payload.CompletionTokens
		if payload.CostMicroUSD != nil {
			s.cost += *payload.CostMicroUSD
		}
	case trace.Assistant:
		if s.grow(event, payload) {
			return true
		}
	}
	if event.Kind == wire.KindLeaseTransferred {
		s.forced = true
	}
	if !hidden(payload) {
		s.add(entry{event: &event})
	}
	return true
}

// hidden is true for what the picture shows elsewhere, or need not show.
func hidden(payload trace.Payload) bool {
	switch payload := payload.(type) {
	case trace.Todos, trace.Usage, trace.StepStart, trace.ReqStart, trace.LocalGen, trace.WaitUser:
		return true
	case trace.ToolCall:
		return true // its start says what it is for
	case trace.ToolResult:
		return payload.Status == trace.ToolOK && len(payload.Content) == 0
	case trace.ControlResult:
		return payload.Outcome == trace.ControlApplied
	default:
		return false
	}
}

// grow appends a piece of an answer to the piece before it (specification, section 8).
func (s *Scene) grow(event wire.Event, piece trace.Assistant) bool {
	if len(s.entries) == 0 || s.entries[len(s.entries)-1].event == nil {
		return false
	}
	before := *s.entries[len(s.entries)-1].event
	payload, err := trace.Read(before)
	if err != nil {
		return false
	}
	begun, ok := payload.(trace.Assistant)
	if !ok || begun.Final || begun.Thought != piece.Thought || event.SenderDeviceID != before.SenderDeviceID {
		return false
	}
	piece.Text = strings.TrimRight(begun.Text, " ") + " " + strings.TrimLeft(piece.Text, " ")
	grown := trace.Must("", piece)
	before.Payload = grown.Payload
	s.entries[len(s.entries)-1].event = &before
	return true
}

// Note adds what the log does not tell.
func (s *Scene) Note(text string) { s.add(entry{note: text}) }

func (s *Scene) add(e entry) {
	if len(s.entries) == maxEntries {
		s.entries = append(s.entries[:0], s.entries[1:]...)
	}
	s.entries = append(s.entries, e)
}

// Lease takes over who executes; nil is nobody.
func (s *Scene) Lease(frame client.LeaseFrame) {
	s.holder = ""
	if frame.HolderDeviceID != nil {
		s.holder = *frame.HolderDeviceID
	}
}

// Presence takes over that a device is here, or left.
func (s *Scene) Presence(p wire.Presence) {
	if p.Online != nil && !*p.Online {
		delete(s.presence, p.DeviceID)
		return
	}
	if s.knows(p.DeviceID) {
		s.presence[p.DeviceID] = p.Driving
	}
}

func (s *Scene) knows(id string) bool {
	for _, device := range s.devices {
		if device.ID == id {
			return true
		}
	}
	return false
}
