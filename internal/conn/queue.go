package conn

import "slices"

// entry is bytes that go to the socket in one piece, never split by another entry.
type entry struct {
	data   []byte
	frames int
	key    string // of SendLatest; "" is never superseded
}

// queue holds what waits for one socket, in order. It does no I/O and is guarded by the stream's
// mutex. The first entries may be pinned, because bytes of them are written or being written.
type queue struct {
	entries []entry
	offset  int // bytes of the first entry that are written
	claimed int // first entries that hold bytes of a write under way
	frames  int // frames not completely written
	bytes   int // bytes not written
}

func (q *queue) empty() bool { return len(q.entries) == 0 }

// admits reports whether a block fits. The largest block does not count in bytes: so one is always
// admitted however large, nothing that comes while it is on its way cuts the client for it, and the
// queue holds at most QueueBytes and one block.
func (q *queue) admits(frames, size int, l Limits) bool {
	switch {
	case q.empty():
		return true
	case q.frames+frames > l.QueueFrames:
		return false
	case q.bytes+size <= l.QueueBytes:
		return true
	}
	largest := max(size, len(q.entries[0].data)-q.offset)
	for _, e := range q.entries[1:] {
		largest = max(largest, len(e.data))
	}
	return q.bytes+size-largest <= l.QueueBytes
}

// push appends e, of which written bytes are on the socket already.
func (q *queue) push(e entry, written int) {
	if q.empty() {
		q.offset = written
		q.entries = make([]entry, 0, 8) // who falls behind by one frame does so by several
	}
	q.entries = append(q.entries, e)
	q.frames += e.frames
	q.bytes += len(e.data) - written
}

// pinned is how many entries must stay where they are.
func (q *queue) pinned() int {
	if q.offset > 0 {
		return max(q.claimed, 1)
	}
	return q.claimed
}

// supersede removes the waiting entry with key, if there is one; there are two when one of them was
// claimed by a write that took nothing.
func (q *queue) supersede(key string) {
	for i := len(q.entries) - 1; i >= q.pinned(); i-- {
		if q.entries[i].key == key {
			q.forget(i, i+1)
		}
	}
}

// urgent puts e before everything that has not begun, in place of one with the same key.
func (q *queue) urgent(e entry) {
	q.supersede(e.key)
	q.entries = slices.Insert(q.entries, q.pinned(), e)
	q.frames += e.frames
	q.bytes += len(e.data)
}

// drop forgets everything that has not begun.
func (q *queue) drop() { q.forget(q.pinned(), len(q.entries)) }

func (q *queue) forget(from, to int) {
	for _, e := range q.entries[from:to] {
		q.frames -= e.frames
		q.bytes -= len(e.data)
	}
	q.entries = slices.Delete(q.entries, from, to)
	q.rest()
}

// next answers the bytes to write next and claims them until advance: the rest of the first entry
// when it is large or alone, otherwise as much of the first entries as joint holds, copied there.
func (q *queue) next(joint []byte) []byte {
	if q.empty() {
		return nil
	}
	first := q.entries[0].data[q.offset:]
	if len(q.entries) == 1 || len(first) >= len(joint)/2 {
		q.claimed = 1
		return first[:min(len(first), maxWrite)]
	}
	n := 0
	for i, offset := 0, q.offset; i < len(q.entries) && n < len(joint); i, offset = i+1, 0 {
		n += copy(joint[n:], q.entries[i].data[offset:])
		q.claimed = i + 1
	}
	return joint[:n]
}

// advance notes that n bytes were written, ends the claim of next, and answers the frames that are
// now complete.
func (q *queue) advance(n int) (frames int) {
	q.claimed = 0
	q.bytes -= n
	n += q.offset
	done := 0
	for done < len(q.entries) && n >= len(q.entries[done].data) {
		n -= len(q.entries[done].data)
		frames += q.entries[done].frames
		q.entries[done] = entry{}
		done++
	}
	q.offset = n
	q.frames -= frames
	q.entries = q.entries[done:]
	q.rest()
	return frames
}

// rest lets go of the buffer of a queue in which nothing waits.
func (q *queue) rest() {
	if q.empty() {
		q.entries = nil
	}
}
