package gateway

import (
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// erasure follows an event that took content away: what is remembered, and what waits for somebody, loses it too.
type erasure struct {
	by *event
	at time.Time
	// file is what is left of it, where a file was deleted: events of messages carry its name.
	file *wire.File
	// attached are the files of a message that was deleted. Whether they went with it is known to the log only.
	attached map[string]bool
}

// erasureOf answers what an event takes away, nil when that is nothing.
func erasureOf(ev *event) *erasure {
	e := &erasure{by: ev, at: ev.record.OccurredAt, attached: map[string]bool{}}
	switch ev.kind.Name {
	case eventlog.MessageDeleted:
		if body, ok := payloadOf[wire.MessageEvent](ev.record); ok && body.Message.DeletedAt != nil {
			e.at = *body.Message.DeletedAt
		}
		return e
	case eventlog.FileUpdated:
		if gone := deletedFile(ev); gone != nil {
			e.at, e.file = *gone.DeletedAt, gone
			return e
		}
	}
	return nil
}

// deletedFile answers the file whose deletion an event tells of, nil when it tells of none.
func deletedFile(ev *event) *wire.File {
	if ev.kind.Name != eventlog.FileUpdated {
		return nil
	}
	body, ok := payloadOf[wire.FileEvent](ev.record)
	if !ok || body.File.DeletedAt == nil {
		return nil
	}
	return &body.File
}

// from takes the content out of an event. An event that it cannot be taken out of is answered with false: it must not be
// sent any more.
func (e *erasure) from(ev *event) bool {
	switch {
	case ev == e.by || ev.kind.Redact == nil || ev.record.Redacted:
		return true
	case ev.record.Resource.ID != e.by.record.Resource.ID:
		return e.file == nil || ev.forget(*e.file)
	case deletedFile(ev) != nil: // tells of the deletion too, in another channel
		return true
	}
	if body, ok := payloadOf[wire.MessageEvent](ev.record); ok && ev.kind.Resource == "message" {
		for _, file := range body.Message.Attachments {
			e.attached[file.ID] = true
		}
	}
	return ev.redact(e.at)
}

// doubtful reports whether an event tells of a file that may be gone. It is asked when all events were looked at.
func (e *erasure) doubtful(ev *event) bool {
	return ev.kind.Name == eventlog.FileUpdated && e.attached[ev.record.Resource.ID]
}

// redact takes the content out of the event, as the log did (ES-2.2). It answers false where it cannot.
func (ev *event) redact(at time.Time) bool {
	record, err := eventlog.Redacted(ev.record, at)
	if err != nil {
		return false
	}
	ev.become(record)
	return true
}

// forget takes what a deleted file was out of the event of a message. It answers false where it cannot.
func (ev *event) forget(gone wire.File) bool {
	record, changed, err := eventlog.WithoutFile(ev.record, gone)
	if err != nil {
		return false
	}
	if changed {
		ev.become(record)
	}
	return true
}

// become replaces the record and the frame. Who holds the event is sent the new one.
func (ev *event) become(record *eventlog.Record) {
	text := dispatch(&record.Envelope)
	ev.record, ev.block, ev.at, ev.bytes = record, conn.NewBlock(conn.Frame{Text: text}), 0, len(text)
}

// erase takes out what an event takes away, if it does. The mutex is held.
func (g *Gateway) erase(by *event) {
	e := erasureOf(by)
	if e == nil {
		return
	}
	g.ring.erase(e)
	for s := range g.sessions {
		if s.catching && !s.over && !g.ring.eraseWaiting(e, s.out) {
			s.end(code.CloseUnknownError, "What waited for this connection is gone.")
		}
	}
}

// erase takes content out of what is remembered. Where that cannot be done it is forgotten, with everything before it.
func (r *ring) erase(e *erasure) {
	for i, ev := range slices.Backward(r.events) {
		before := ev.bytes
		erased := e.from(ev)
		r.bytes += ev.bytes - before
		if !erased {
			r.forgetUpTo(i)
			break
		}
	}
	for i, ev := range slices.Backward(r.events) {
		if e.doubtful(ev) {
			r.forgetUpTo(i)
			break
		}
	}
}

// eraseWaiting takes content out of events that wait and are not remembered any more. It answers false where one of them
// must not be sent.
func (r *ring) eraseWaiting(e *erasure, waiting []*event) bool {
	oldest := r.oldest()
	for _, ev := range waiting {
		if oldest != 0 && ev.record.Seq >= oldest {
			return true // the rest is remembered too
		}
		if !e.from(ev) || e.doubtful(ev) {
			return false
		}
	}
	return true
}
