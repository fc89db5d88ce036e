package gateway

import (
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/eventlog"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Bounds of the newest events that are remembered, for connections that come back.
const (
	maxRemembered      = 16_384
	maxRememberedBytes = 32 << 20
)

// ring remembers the newest events of the log without a gap. It is guarded by the gateway's mu.
type ring struct {
	events []*event // ascending, dense
	bytes  int
}

func (r *ring) add(events []*event) {
	for _, ev := range events {
		r.events = append(r.events, ev)
		r.bytes += ev.bytes
	}
	for len(r.events) > 0 && (len(r.events) > maxRemembered || r.bytes > maxRememberedBytes) {
		r.bytes -= r.events[0].bytes
		r.events[0] = nil
		r.events = r.events[1:]
	}
}

// oldest is the number of the first event that is remembered, 0 without any.
func (r *ring) oldest() int64 {
	if len(r.events) == 0 {
		return 0
	}
	return r.events[0].record.Seq
}

// after answers the events behind a number, at most limit, and whether none of them is missing.
func (r *ring) after(seq int64, limit int) ([]*event, bool) {
	oldest := r.oldest()
	if oldest == 0 || seq+1 < oldest {
		return nil, false
	}
	from := min(int(seq+1-oldest), len(r.events))
	return r.events[from:min(from+limit, len(r.events))], true
}

func (r *ring) forget() { *r = ring{} }

// redact follows an event that took content away: what is remembered of its resource loses it too. What cannot be
// redacted is forgotten, with everything before it; so is what is remembered of the attachments, because whether
// they went with their message is known to the log only.
func (r *ring) redact(by *event) {
	at, ok := deletion(by)
	if !ok {
		return
	}
	attached := map[string]bool{}
	for i, ev := range slices.Backward(r.events) {
		if ev.kind.Redact == nil || ev.record.Redacted || ev.record.Resource.ID != by.record.Resource.ID || ev == by {
			continue
		}
		if body, ok := payloadOf[wire.MessageEvent](ev.record); ok && ev.kind.Resource == "message" {
			for _, file := range body.Message.Attachments {
				attached[file.ID] = true
			}
		}
		before := ev.bytes
		redacted := ev.redact(at)
		r.bytes += ev.bytes - before
		if !redacted {
			r.forgetUpTo(i)
			break
		}
	}
	for i, ev := range slices.Backward(r.events) {
		if ev.kind.Name == eventlog.FileUpdated && attached[ev.record.Resource.ID] {
			r.forgetUpTo(i)
			break
		}
	}
}

// forgetUpTo forgets the events up to and including the one at i.
func (r *ring) forgetUpTo(i int) {
	for _, gone := range r.events[:i+1] {
		r.bytes -= gone.bytes
	}
	r.events = r.events[i+1:]
}

// deletion answers when the resource of an event was deleted, if the event says so.
func deletion(ev *event) (time.Time, bool) {
	switch ev.kind.Name {
	case eventlog.MessageDeleted:
		body, ok := payloadOf[wire.MessageEvent](ev.record)
		if !ok || body.Message.DeletedAt == nil {
			return ev.record.OccurredAt, true
		}
		return *body.Message.DeletedAt, true
	case eventlog.FileUpdated:
		body, ok := payloadOf[wire.FileEvent](ev.record)
		if ok && body.File.DeletedAt != nil {
			return *body.File.DeletedAt, true
		}
	}
	return time.Time{}, false
}
