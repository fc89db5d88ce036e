package gateway

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

// forgetUpTo forgets the events up to and including the one at i.
func (r *ring) forgetUpTo(i int) {
	for _, gone := range r.events[:i+1] {
		r.bytes -= gone.bytes
	}
	r.events = r.events[i+1:]
}
