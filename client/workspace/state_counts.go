package workspace

import (
	"slices"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// count is how much of a thread is unread. The server computes it for the snapshot and for
// read_state.updated; in between it is counted here (ES-14).
type count struct {
	LastRead int64          `json:"last_read"`
	Version  int64          `json:"version"`
	Unread   int64          `json:"unread"`
	Mentions int64          `json:"mentions"`
	Clear    int64          `json:"clear"` // nothing up to it was unread when the first unread message above it came
	Floor    int64          `json:"floor"`
	Floored  bool           `json:"floored"`         // Floor is known
	FloorAt  int64          `json:"floor_at"`        // since this event
	Loaded   bool           `json:"loaded"`          // Floor was loaded: its event may still come
	Marks    map[int64]mark `json:"marks,omitempty"` // by thread_seq: what was counted for a message
}

// mark is what is known of one message for counting.
type mark struct {
	Mentions bool `json:"m,omitempty"`
	Deleted  bool `json:"d,omitempty"`
	// Ahead says that the event was redacted since: it tells of the deletion before that came (ES-2.2).
	Ahead bool `json:"a,omitempty"`
}

func (c *count) readTo() int64 { return max(c.LastRead, c.Floor, c.Clear) }

// remember notes what was counted for a message; beyond the bound the oldest is forgotten, which makes a
// later change of it a reason to ask the server.
func (c *count) remember(seq int64, m mark) {
	if c.Marks == nil {
		c.Marks = map[int64]mark{}
	}
	c.Marks[seq] = m
	for len(c.Marks) > maxMarks {
		oldest := seq
		for other := range c.Marks {
			oldest = min(oldest, other)
		}
		delete(c.Marks, oldest)
	}
}

func (s *State) countOf(thread string) *count {
	if c, known := s.counts.get(thread); known {
		return c
	}
	c := &count{}
	if held, known := s.threads.get(thread); known {
		c.Floor, c.Floored, c.Loaded = held.UnreadFloorSeq, true, true
	}
	return c
}

// countMessage counts a message that was written, changed or deleted. What an event cannot tell, because the
// message was counted by the server and is not held here, is asked for.
func (s *State) countMessage(event Event, message wire.Message) {
	if message.Author.ID == s.core.Me.ID || message.Origin == wire.OriginImport {
		return
	}
	c := s.countOf(message.ThreadID)
	if message.ThreadSeq <= c.readTo() {
		return
	}
	now := mark{Mentions: slices.Contains(message.MentionIDs, s.core.Me.ID), Deleted: message.DeletedAt != nil, Ahead: event.Redacted}
	if event.Type == TypeMessageCreated {
		if c.Unread == 0 {
			c.Clear = message.ThreadSeq - 1
		}
		c.add(mark{Deleted: true}, now)
		c.remember(message.ThreadSeq, now)
		s.counts.put(message.ThreadID, c)
		return
	}
	before, known := c.Marks[message.ThreadSeq]
	held, isHeld := s.heldBefore(message)
	switch {
	case known:
	case c.Unread == 0, c.Mentions == 0 && !now.Mentions && !now.Deleted:
		return
	case c.Floored && isHeld:
		before = held
	case c.Floored && c.Mentions == 0: // it is one of those that are unread, and cannot have mentioned anybody before
	default:
		s.need(NeedSnapshot, "")
		return
	}
	c.add(before, now)
	c.remember(message.ThreadSeq, now)
	s.counts.put(message.ThreadID, c)
}

// heldBefore answers how a message counted before it changed, where the copy has that. A tombstone does not
// say: it may have been counted before it became one.
func (s *State) heldBefore(message wire.Message) (mark, bool) {
	held, known := s.messages.get(message.ID)
	if !known || held.Version >= message.Version || held.DeletedAt != nil {
		return mark{}, false
	}
	return mark{Mentions: slices.Contains(held.MentionIDs, s.core.Me.ID)}, true
}

// add replaces what a message counted by what it counts now.
func (c *count) add(before, now mark) {
	one := func(is bool) int64 {
		if is {
			return 1
		}
		return 0
	}
	c.Unread = max(0, c.Unread+one(!now.Deleted)-one(!before.Deleted))
	c.Mentions = max(0, c.Mentions+one(now.Mentions && !now.Deleted)-one(before.Mentions && !before.Deleted))
}

// noteFloor follows an import: what lies below counts as unread for nobody. Which of the counted messages
// that are only the server knows. seq is of the event that says it, 0 for something loaded.
func (s *State) noteFloor(seq int64, thread wire.Thread) {
	c, known := s.counts.get(thread.ID)
	if !known || c.Floored && !(c.Loaded && seq > 0) && thread.UnreadFloorSeq <= c.Floor {
		return
	}
	before := max(c.LastRead, c.Clear)
	if !c.Loaded {
		before = max(before, c.Floor)
	}
	c.Floor, c.Floored, c.FloorAt, c.Loaded = max(c.Floor, thread.UnreadFloorSeq), true, max(seq, c.FloorAt), seq == 0
	s.counts.put(thread.ID, c)
	if (seq == 0 || seq > s.core.CountedTo) && c.Unread > 0 && c.Floor > before {
		s.need(NeedSnapshot, "")
	}
}

// applyReadState takes what the server counted in the same transaction.
func (s *State) applyReadState(event Event, said wire.ReadState) {
	c := s.countOf(said.ThreadID)
	if said.Version >= c.Version {
		c.LastRead, c.Version = said.LastReadSeq, said.Version
	}
	if event.Seq > s.core.CountedTo {
		c.Unread, c.Mentions, c.Clear = said.UnreadCount, said.MentionCount, 0
		for seq := range c.Marks {
			if seq <= said.LastReadSeq || c.Marks[seq].Ahead { // what the server counted knew nothing of a later deletion
				delete(c.Marks, seq)
			}
		}
		s.core.CountedTo = event.Seq
	}
	s.counts.put(said.ThreadID, c)
}

// mergeCounts takes the counts of a snapshot, which names threads with unread messages only.
func (s *State) mergeCounts(states []wire.ReadState, at int64) {
	for id, c := range s.counts.rows {
		c.Unread, c.Mentions, c.Clear, c.Marks = 0, 0, 0, nil
		if c.FloorAt > at { // its event comes again, and is to be thought of again
			c.Floor, c.Floored, c.FloorAt = 0, false, 0
		}
		s.counts.put(id, c)
	}
	for _, said := range states {
		c := s.countOf(said.ThreadID)
		c.LastRead, c.Version, c.Unread, c.Mentions = said.LastReadSeq, said.Version, said.UnreadCount, said.MentionCount
		s.counts.put(said.ThreadID, c)
	}
	s.core.CountedTo = at
}
