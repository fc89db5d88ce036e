package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// settle does with an entry what the end of an attempt means.
func (o *Outbox) settle(ctx context.Context, sent Entry, answer Answer, err error) error {
	switch judge(err) {
	case verdictDone:
		return o.confirmed(ctx, sent, answer)
	case verdictRetry:
		o.later(sent, err)
		return nil
	case verdictAsk:
		return o.refused(ctx, sent, EntryConflict, err)
	case verdictPause:
		o.stop(ErrSignedOut)
		o.land(sent.ID)
		return ErrSignedOut
	default:
		return o.refused(ctx, sent, EntryFailed, err)
	}
}

// later notes when an entry is tried again (ES-13.2). That is not stored: after a restart it is tried at once.
func (o *Outbox) later(sent Entry, err error) {
	o.mu.Lock()
	asked := waitOf(err)
	wait := fullJitter(sent.Attempts-1, outboxBase, outboxCap, rand.Float64())
	o.freeLane(sent.ID)
	entry, there := o.entries[sent.ID]
	if there {
		o.waits[sent.ID] = hold{until: time.Now().Add(stretch(asked, wait, rand.Float64())), asked: asked > 0}
		entry.Problem = problemOf(err)
		sent = *entry
	}
	hear := o.hear
	o.tell()
	o.mu.Unlock()
	if there {
		hear(Outcome{Entry: sent})
	}
}

// confirmed removes an entry that the server has.
func (o *Outbox) confirmed(ctx context.Context, sent Entry, answer Answer) error {
	var message wire.Message
	switch sent.Kind {
	case EntryMessage:
		if err := decodeAnswer(answer, sent.call(), &message); err != nil {
			o.later(sent, err)
			return nil
		}
	case EntryThread:
		var started wire.ThreadStarted
		if err := decodeAnswer(answer, sent.call(), &started); err != nil {
			o.later(sent, err)
			return nil
		}
		message = started.Message
	default:
	}
	return o.finish(ctx, sent.ID, message, &answer)
}

// finish removes an entry and tells those that wait for its message what it is.
func (o *Outbox) finish(ctx context.Context, id string, message wire.Message, answer *Answer) error {
	o.mu.Lock()
	entry, there := o.entries[id]
	if !there {
		o.freeLane(id)
		o.mu.Unlock()
		return nil
	}
	var put []Entry
	for _, follower := range o.entries {
		if follower.Target != id {
			continue
		}
		resolved := *follower
		if err := pointTo(&resolved, message); err != nil {
			o.mu.Unlock()
			return err
		}
		put = append(put, resolved)
	}
	gone := *entry
	err := o.commit(ctx, put, []string{id})
	o.freeLane(id)
	hear := o.hear
	o.mu.Unlock()
	if err != nil {
		return err
	}
	hear(Outcome{Entry: gone, Done: true, Answer: answer})
	signal(o.ready)
	return nil
}

// freeLane ends what is under way for an entry; the lock is held.
func (o *Outbox) freeLane(id string) {
	maps.DeleteFunc(o.flying, func(_, flying string) bool { return flying == id })
	delete(o.waits, id)
	o.tell()
}

// commit stores changes and makes them; the lock is held.
func (o *Outbox) commit(ctx context.Context, put []Entry, remove []string) error {
	if err := o.store.PutEntries(ctx, put, remove); err != nil {
		return fmt.Errorf("store outbox: %w", err)
	}
	for _, entry := range put {
		o.entries[entry.ID] = &entry
	}
	for _, id := range remove {
		delete(o.entries, id)
		delete(o.waits, id)
	}
	o.tell()
	return nil
}

// refused keeps an entry that is not sent any more by itself. What waited for its message has nothing to be
// about: a deletion is fulfilled, and an edit is what its text should have been.
func (o *Outbox) refused(ctx context.Context, sent Entry, as EntryState, err error) error {
	o.mu.Lock()
	entry, there := o.entries[sent.ID]
	if !there {
		o.freeLane(sent.ID)
		o.mu.Unlock()
		return nil
	}
	kept := *entry
	kept.State, kept.Problem = as, problemOf(err)
	var remove []string
	var put []Entry
	var failed error
	deleted := false
	for _, follower := range o.entries {
		if follower.Target != sent.ID {
			continue
		}
		remove = append(remove, follower.ID)
		deleted = deleted || follower.Kind == EntryDelete
		if follower.Kind == EntryEdit {
			kept.Content = follower.Content
			failed = errors.Join(failed, setContent(&kept, follower.Content))
		}
	}
	if deleted {
		remove = append(remove, kept.ID)
	} else {
		put = append(put, kept)
	}
	failed = errors.Join(failed, o.commit(ctx, put, remove))
	o.freeLane(sent.ID)
	hear := o.hear
	o.mu.Unlock()
	if failed != nil {
		return failed
	}
	hear(Outcome{Entry: kept, Done: deleted})
	return nil
}

// Confirm tells the outbox of an own message that the server has, by its client_msg_id: the echo of what was
// sent here (ES-13.2). It reports whether an entry was waiting for it. Of somebody else's message the id says
// nothing: the caller looks at the author.
func (o *Outbox) Confirm(ctx context.Context, message wire.Message) (bool, error) {
	if message.ClientMsgID == "" {
		return false, nil
	}
	entry, there := o.Entry(message.ClientMsgID)
	if !there || entry.Kind != EntryMessage && entry.Kind != EntryThread {
		return false, nil
	}
	return true, o.finish(ctx, entry.ID, message, nil)
}
