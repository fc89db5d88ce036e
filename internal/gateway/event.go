package gateway

import (
	"encoding/json"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// event is one event of the log, encoded once for whoever receives it. Its record and its frame change when it is
// redacted; they are guarded by the gateway's mu once the gateway has it.
type event struct {
	record *eventlog.Record
	kind   *eventlog.Type
	block  *conn.Block // holds its frame
	at     int         // which one
	bytes  int

	read    bool            // whoever reads its channel may receive it
	owner   string          // of a file: who uploaded it
	subject *authz.Snapshot // of an event about a principal: what that one sees; nil while that is not known
	thread  string          // the thread whose current channel counts, or that has left its channel
}

// payloadOf decodes a payload that the catalogue checked when it was written.
func payloadOf[T any](record *eventlog.Record) (T, bool) {
	var body T
	return body, json.Unmarshal(record.Payload, &body) == nil
}

// newEvents encodes records into one block. Types that this program does not know, of a newer node in the same
// cluster, have no receive action here and reach nobody.
func newEvents(records []*eventlog.Record) []*event {
	events := make([]*event, len(records))
	frames := make([]conn.Frame, len(records))
	for i, record := range records {
		frames[i] = conn.Frame{Text: dispatch(&record.Envelope)}
		events[i] = &event{record: record, kind: eventlog.TypeOf(record.Type), at: i, bytes: len(frames[i].Text), thread: record.Scope.ThreadID}
		events[i].learn()
	}
	block := conn.NewBlock(frames...)
	for _, ev := range events {
		ev.block = block
	}
	return events
}

// plain are the receive actions that need to read the channel and nothing else.
var plain = func() map[action.Action]bool {
	all := map[action.Action]bool{}
	read, _ := authz.RuleOf(action.ChannelRead)
	for _, a := range authz.Actions() {
		if rule, _ := authz.RuleOf(a); rule == read {
			all[a] = true
		}
	}
	return all
}()

// unknown stands for the types that are not in the catalogue.
var unknown = &eventlog.Type{}

// learn reads what decides about receivers out of the payload.
func (ev *event) learn() {
	if ev.kind == nil {
		ev.kind = unknown
		return
	}
	ev.read = plain[ev.kind.Receive] && ev.kind.Name != eventlog.ThreadMovedOut
	switch ev.kind.Name {
	case eventlog.FileUpdated:
		if body, ok := payloadOf[wire.FileEvent](ev.record); ok {
			ev.owner = body.File.UploadedBy
		}
	case eventlog.ThreadMovedOut:
		if body, ok := payloadOf[wire.ThreadMovedOut](ev.record); ok {
			ev.thread = body.ThreadID
		}
	}
}

// aboutPrincipal reports whether receivers have to share a channel with the event's subject.
func (ev *event) aboutPrincipal() bool {
	return ev.kind.Receive == action.PrincipalRead || ev.kind.Receive == action.AgentRead
}

// locator answers where threads that moved are now.
type locator func(threadID string) (authz.Place, bool)

// resource answers what the receive action is asked about: the current channel of a thread, wherever it was when
// the event was written (workspace specification, section 5).
func (ev *event) resource(p *places, moved locator) authz.Resource {
	scope := ev.record.Scope
	r := authz.Resource{Place: p.of(scope.ChannelID, scope.SpaceID), Owner: ev.owner, Audience: ev.record.AudienceID}
	if ev.kind.Name != eventlog.ThreadMovedOut && ev.thread != "" {
		if place, ok := moved(ev.thread); ok {
			r.Place = place
		}
	}
	if ev.aboutPrincipal() {
		r.Owner = ev.record.Resource.ID
	}
	return r
}

// reaches decides about one receiver. resource is the event's own.
func (ev *event) reaches(s *authz.Snapshot, resource *authz.Resource, moved locator, now time.Time) bool {
	return ev.concerns(s, resource, now) && (ev.kind.Name != eventlog.ThreadMovedOut || !ev.seesTarget(s, moved, now))
}

// concerns is reaches without where a thread went.
func (ev *event) concerns(s *authz.Snapshot, resource *authz.Resource, now time.Time) bool {
	if ev.kind == unknown {
		return false
	}
	if ev.aboutPrincipal() {
		mine := *resource
		mine.Shared = ev.subject != nil && authz.Share(s, ev.subject, now)
		resource = &mine
	}
	_, may := s.May(ev.kind.Receive, resource, now)
	return may
}

// seesTarget reports whether a receiver of thread.moved_out sees where the thread went: it gets thread.moved.
func (ev *event) seesTarget(s *authz.Snapshot, moved locator, now time.Time) bool {
	place, ok := moved(ev.thread)
	if !ok || place.ChannelID == ev.record.Scope.ChannelID {
		return false
	}
	return s.Level(place, now) != wire.LevelNone
}

// hearing is the receive actions that an API token is for; nil is everything.
type hearing map[action.Action]bool

func hearingOf(scopes []string) hearing {
	if scopes == nil {
		return nil
	}
	h := make(hearing, len(scopes))
	for _, scope := range scopes {
		h[action.Action(scope)] = true
	}
	return h
}

// event reports whether an event is within the scopes.
func (h hearing) event(ev *event) bool { return h == nil || h[ev.kind.Receive] }

func dispatch(envelope *wire.Envelope) []byte {
	shown := shown(envelope)
	return encode(wire.OpDispatch, &shown)
}

// shown is an event as people get it: the trace context of a request goes to the adapters of agents only (ES-2.2).
func shown(envelope *wire.Envelope) wire.Envelope {
	copied := *envelope
	copied.TraceContext = ""
	return copied
}

// encode writes a frame.
func encode(op string, d any) []byte {
	body, err := json.Marshal(d)
	if err != nil {
		panic(err) // what is sent is made of strings, numbers and JSON that was checked
	}
	text := make([]byte, 0, len(body)+len(op)+len(`{"op":"","d":}`))
	text = append(text, `{"op":"`...)
	text = append(text, op...)
	text = append(text, `","d":`...)
	text = append(text, body...)
	return append(text, '}')
}

func blockOf(op string, d any) *conn.Block { return conn.NewBlock(conn.Frame{Text: encode(op, d)}) }
