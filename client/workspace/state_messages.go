package workspace

import (
	"cmp"
	"slices"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// window is an open thread: its messages from From on are held. Those above Last may have gaps, which are
// loaded (ES-4).
type window struct {
	ThreadID string          `json:"thread_id"`
	From     int64           `json:"from"` // the lowest thread_seq that is held; 1 is the beginning
	Last     int64           `json:"last"` // every message from From to it is held
	Loaded   bool            `json:"loaded"`
	Pins     map[string]bool `json:"pins,omitempty"` // ids of pinned messages, also below From
	UsedAt   time.Time       `json:"used_at"`

	bySeq map[int64]string // ids of the messages that are held
}

func newWindow(thread string, now time.Time) *window {
	return &window{ThreadID: thread, From: 1, UsedAt: now, Pins: map[string]bool{}, bySeq: map[int64]string{}}
}

func (w *window) index(message wire.Message) {
	if w.bySeq == nil {
		w.bySeq = map[int64]string{}
	}
	w.bySeq[message.ThreadSeq] = message.ID
}

// reach moves Last over what follows it.
func (w *window) reach() {
	for w.bySeq[w.Last+1] != "" {
		w.Last++
	}
}

// ofThread answers the messages of an open thread in order.
func (s *State) ofThread(thread string) []wire.Message {
	w, open := s.windows.get(thread)
	if !open {
		return nil
	}
	held := make([]wire.Message, 0, len(w.bySeq))
	for _, id := range w.bySeq {
		held = append(held, s.messages.rows[id])
	}
	slices.SortFunc(held, func(a, b wire.Message) int { return cmp.Compare(a.ThreadSeq, b.ThreadSeq) })
	return held
}

func (s *State) applyMessage(event Event, data *wire.MessageEvent) {
	message := data.Message
	message.Version = event.Resource.Version
	if event.Seq > s.core.CountedTo {
		s.countMessage(event, message)
		s.core.CountedTo = event.Seq
	}
	s.applySummary(data.Thread)
	w, open := s.windows.get(message.ThreadID)
	if !open {
		return
	}
	if w.Loaded && message.ThreadSeq < w.From {
		w.pin(message.ID, message.Pinned)
		s.windows.put(w.ThreadID, w)
		return
	}
	held, known := s.messages.get(message.ID)
	if known && message.Version <= held.Version {
		return
	}
	message.Reactions = withOwn(message.Reactions, held.Reactions)
	s.hold(w, message)
	if event.Truncated {
		s.need(NeedMessage, message.ID)
	}
	if w.Loaded && message.ThreadSeq > w.Last {
		s.need(NeedTail, message.ThreadID)
	}
}

// applySummary applies what a message's event says about its thread.
func (s *State) applySummary(said wire.ThreadSummary) {
	thread, known := s.threads.get(said.ID)
	if !known || said.Version <= thread.Version {
		return
	}
	thread.Version, thread.State, thread.LastMessageSeq = said.Version, said.State, said.LastMessageSeq
	thread.MessageCount, thread.LastActivityAt = said.MessageCount, said.LastActivityAt
	s.threads.put(thread.ID, thread)
}

// hold puts a message into its window and keeps the window within its bound.
func (s *State) hold(w *window, message wire.Message) {
	if thread, known := s.threads.get(message.ThreadID); known {
		message.ChannelID = thread.ChannelID // the event may be from before a move
	}
	s.messages.put(message.ID, message)
	w.index(message)
	w.pin(message.ID, message.Pinned)
	w.reach()
	for len(w.bySeq) > MaxWindow {
		s.messages.remove(w.bySeq[w.From])
		delete(w.bySeq, w.From)
		w.From++
	}
	s.windows.put(w.ThreadID, w)
}

func (w *window) pin(message string, pinned bool) {
	switch {
	case !pinned:
		delete(w.Pins, message)
	case w.Pins == nil:
		w.Pins = map[string]bool{message: true}
	default:
		w.Pins[message] = true
	}
}

// withOwn keeps which reactions are the principal's own: events do not say it.
func withOwn(reactions, held []wire.Reaction) []wire.Reaction {
	said := slices.Clone(reactions)
	for i, reaction := range said {
		at := slices.IndexFunc(held, func(r wire.Reaction) bool { return r.Emoji == reaction.Emoji })
		said[i].Me = at >= 0 && held[at].Me
	}
	return said
}

// applyReaction sets an absolute count; such events have no version and come in order (ES-9.3).
func (s *State) applyReaction(event Event, data *wire.ReactionEvent) {
	message, held := s.messages.get(data.MessageID)
	if !held || data.Emoji == "" || message.DeletedAt != nil { // redacted, or the content is gone
		return
	}
	reactions := slices.Clone(message.Reactions)
	at := slices.IndexFunc(reactions, func(r wire.Reaction) bool { return r.Emoji == data.Emoji })
	if at < 0 {
		at, reactions = len(reactions), append(reactions, wire.Reaction{Emoji: data.Emoji})
	}
	reactions[at].Count = data.Count
	if data.PrincipalID == s.core.Me.ID {
		reactions[at].Me = event.Type == TypeReactionAdded
	}
	message.Reactions = slices.DeleteFunc(reactions, func(r wire.Reaction) bool { return r.Count <= 0 })
	s.messages.put(message.ID, message)
}

// applyPin sets whether a message is pinned. A deletion takes the pin along without an event of its own.
func (s *State) applyPin(data *wire.PinEvent) {
	if message, held := s.messages.get(data.MessageID); held && message.DeletedAt != nil {
		return
	}
	if w, open := s.windows.get(data.ThreadID); open {
		w.pin(data.MessageID, data.Pinned)
		s.windows.put(data.ThreadID, w)
	}
	if message, held := s.messages.get(data.MessageID); held && message.Pinned != data.Pinned {
		message.Pinned = data.Pinned
		s.messages.put(message.ID, message)
	}
}

// applyFile replaces a file in the messages that carry it.
func (s *State) applyFile(file wire.File, version int64) {
	file.Version = version
	for id, message := range s.messages.rows {
		at := slices.IndexFunc(message.Attachments, func(f wire.File) bool { return f.ID == file.ID && f.Version < file.Version })
		if at < 0 {
			continue
		}
		message.Attachments = slices.Clone(message.Attachments)
		message.Attachments[at] = file
		s.messages.put(id, message)
	}
}
