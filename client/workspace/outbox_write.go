package workspace

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Text is a message as it is written.
type Text struct {
	ContentMD  string
	ReplyToID  string
	FileIDs    []string
	ClearDraft bool // deletes the thread's draft with the same stroke
}

// Send queues a message for a thread.
func (o *Outbox) Send(ctx context.Context, thread string, text Text) (Entry, error) {
	id := NewID()
	entry, err := newEntry(EntryMessage, id, thread, http.MethodPost, wire.NewMessage{
		ClientMsgID: id, ContentMD: text.ContentMD, ReplyToID: text.ReplyToID, FileIDs: text.FileIDs, ClearDraft: text.ClearDraft,
	}, "/threads/", thread, "/messages")
	entry.ThreadID, entry.Content = thread, text.ContentMD
	return o.add(ctx, entry, err, nil)
}

// StartThread queues a thread or post with its first message.
func (o *Outbox) StartThread(ctx context.Context, channel, title string, text Text) (Entry, error) {
	id := NewID()
	entry, err := newEntry(EntryThread, id, "channel/"+channel, http.MethodPost, wire.NewThread{
		Title: title, ClientMsgID: id, ContentMD: text.ContentMD, FileIDs: text.FileIDs,
	}, "/channels/", channel, "/threads")
	entry.ChannelID, entry.Content = channel, text.ContentMD
	return o.add(ctx, entry, err, nil)
}

// Edit queues a new wording of a sent message, of the version the person saw. When it has another one by
// then the entry becomes a conflict (ES-13.3).
func (o *Outbox) Edit(ctx context.Context, message wire.Message, content string) (Entry, error) {
	entry, err := newEntry(EntryEdit, NewID(), message.ThreadID, http.MethodPatch, wire.EditMessage{ContentMD: content},
		"/messages/", message.ID)
	entry.ThreadID, entry.MessageID, entry.IfMatch, entry.Content = message.ThreadID, message.ID, message.Version, content
	return o.add(ctx, entry, err, nil)
}

// Delete queues the deletion of a sent message.
func (o *Outbox) Delete(ctx context.Context, message wire.Message) (Entry, error) {
	entry, err := newEntry(EntryDelete, NewID(), message.ThreadID, http.MethodDelete, nil, "/messages/", message.ID)
	entry.ThreadID, entry.MessageID = message.ThreadID, message.ID
	return o.add(ctx, entry, err, nil)
}

// Write is any other change.
type Write struct {
	// Lane is what the write waits for earlier ones in: a thread's id for what belongs to a thread.
	Lane    string
	Method  string
	Path    string // below the base URL, escaped
	Body    any
	IfMatch int64
	// Replace lets the write take the place of an earlier one of the same method and path that was not sent
	// yet: for values of which the last one wins, such as drafts and read states.
	Replace bool
}

// Write queues any other change.
func (o *Outbox) Write(ctx context.Context, w Write) (Entry, error) {
	entry := Entry{
		ID: NewID(), Lane: w.Lane, Kind: EntryWrite, Method: w.Method, Path: w.Path, IfMatch: w.IfMatch,
		CreatedAt: time.Now().UTC(), State: EntryWaiting,
	}
	var err error
	if w.Body != nil {
		entry.Body, err = httpkit.Encode(w.Body)
	}
	var replaced func(Entry) bool
	if w.Replace {
		replaced = func(e Entry) bool {
			return e.Kind == EntryWrite && e.State == EntryWaiting && !e.Sent() && e.Lane == w.Lane && e.Method == w.Method && e.Path == w.Path
		}
	}
	return o.add(ctx, entry, err, replaced)
}

// write queues a change in a lane at a path.
func (o *Outbox) write(ctx context.Context, lane, method string, body any, replace bool, parts ...string) (Entry, error) {
	at, err := httpkit.Path(parts...)
	if err != nil {
		return Entry{}, err
	}
	return o.Write(ctx, Write{Lane: lane, Method: method, Path: prefix + at, Body: body, Replace: replace})
}

// React queues a reaction of the person to a message, or with on false its end.
func (o *Outbox) React(ctx context.Context, message wire.Message, emoji string, on bool) (Entry, error) {
	return o.write(ctx, message.ThreadID, putOrDelete(on), nil, false, "/messages/", message.ID, "/reactions/", emoji)
}

// Pin queues pinning a message, or with on false the end of it.
func (o *Outbox) Pin(ctx context.Context, message wire.Message, on bool) (Entry, error) {
	return o.write(ctx, message.ThreadID, putOrDelete(on), nil, false, "/threads/", message.ThreadID, "/pins/", message.ID)
}

func putOrDelete(on bool) string {
	if on {
		return http.MethodPut
	}
	return http.MethodDelete
}

// MarkRead queues that a thread was read up to a message.
func (o *Outbox) MarkRead(ctx context.Context, thread string, seq int64) (Entry, error) {
	return o.write(ctx, thread, http.MethodPut, wire.PutReadState{LastReadSeq: seq}, true, "/read-states/", thread)
}

// PutDraft queues a draft.
func (o *Outbox) PutDraft(ctx context.Context, thread string, put wire.PutDraft) (Entry, error) {
	return o.write(ctx, thread, http.MethodPut, put, true, "/drafts/", thread)
}

// CloseThread queues marking a thread done, or with done false opening it again.
func (o *Outbox) CloseThread(ctx context.Context, thread string, done bool) (Entry, error) {
	to := "/done"
	if !done {
		to = "/reopen"
	}
	return o.write(ctx, thread, http.MethodPost, empty{}, false, "/threads/", thread, to)
}

// newEntry makes an entry; its error is for add.
func newEntry(kind EntryKind, id, lane, method string, body any, parts ...string) (Entry, error) {
	entry := Entry{ID: id, Lane: lane, Kind: kind, Method: method, CreatedAt: time.Now().UTC(), State: EntryWaiting}
	at, err := httpkit.Path(parts...)
	if err != nil {
		return entry, err
	}
	entry.Path = prefix + at
	if body != nil {
		entry.Body, err = httpkit.Encode(body)
	}
	return entry, err
}

// add stores an entry at the end of its lane. It returns when it is durable; replaced are dropped with the same stroke.
func (o *Outbox) add(ctx context.Context, entry Entry, failed error, replaced func(Entry) bool) (Entry, error) {
	if failed != nil {
		return entry, failed
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var remove []string
	for id, other := range o.entries {
		if replaced != nil && replaced(*other) && o.flying[other.Lane] != id {
			remove = append(remove, id)
		}
	}
	if len(o.entries)-len(remove) >= MaxEntries {
		return entry, ErrOutboxFull
	}
	o.place++
	entry.Place = o.place
	if err := o.commit(ctx, []Entry{entry}, remove); err != nil {
		return entry, err
	}
	signal(o.ready)
	return entry, nil
}

// change makes a change to one entry, alone: decide answers what to store and what to remove.
func (o *Outbox) change(ctx context.Context, id string, decide func(e Entry, flying bool) (put []Entry, remove []string, err error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	entry, there := o.entries[id]
	if !there {
		return fmt.Errorf("entry %s: %w", id, ErrNoEntry)
	}
	put, remove, err := decide(*entry, o.flying[entry.Lane] == id)
	if err != nil {
		return err
	}
	if err := o.commit(ctx, put, remove); err != nil {
		return err
	}
	signal(o.ready)
	return nil
}

// EditEntry changes the text of a message that is not confirmed (ES-13.3). When the server cannot know the
// message yet the entry itself changes; otherwise an edit follows it. The text of what failed or is in
// conflict changes too, and is sent by Resend.
func (o *Outbox) EditEntry(ctx context.Context, id, content string) error {
	return o.change(ctx, id, func(e Entry, flying bool) ([]Entry, []string, error) {
		if e.Kind != EntryMessage && e.Kind != EntryThread && e.Kind != EntryEdit {
			return nil, nil, httpkit.NotSent("edit entry %s: it has no text", id)
		}
		if e.State != EntryWaiting || !e.Sent() && !flying {
			err := setContent(&e, content)
			return []Entry{e}, nil, err
		}
		if follower := o.follower(id, EntryEdit); follower != nil && e.Kind != EntryEdit {
			changed := *follower
			err := setContent(&changed, content)
			return []Entry{changed}, nil, err
		}
		edit, err := newEntry(EntryEdit, NewID(), e.Lane, http.MethodPatch, wire.EditMessage{ContentMD: content})
		o.place++
		edit.Place, edit.ThreadID, edit.Content = o.place, e.ThreadID, content
		if e.Kind == EntryEdit { // of the same message; whether it still fits the server says
			edit.MessageID, edit.Path, edit.IfMatch = e.MessageID, e.Path, e.IfMatch+1
		} else {
			edit.Target = id
		}
		return []Entry{edit}, nil, err
	})
}

// follower answers the entry of a kind that waits for another one's message; the lock is held.
func (o *Outbox) follower(id string, kind EntryKind) *Entry {
	for _, entry := range o.entries {
		if entry.Target == id && entry.Kind == kind {
			return entry
		}
	}
	return nil
}

// Discard takes an entry back. A message the server may know already is deleted as soon as it is confirmed
// (ES-13.3); any other write that is under way cannot be taken back any more.
func (o *Outbox) Discard(ctx context.Context, id string) error {
	return o.change(ctx, id, func(e Entry, flying bool) ([]Entry, []string, error) {
		followers := []string{}
		for _, other := range o.entries {
			if other.Target == id {
				followers = append(followers, other.ID)
			}
		}
		if e.State != EntryWaiting || !e.Sent() && !flying {
			return nil, append(followers, id), nil
		}
		if e.Kind != EntryMessage && e.Kind != EntryThread {
			if flying {
				return nil, nil, httpkit.NotSent("discard entry %s: it is under way", id)
			}
			return nil, []string{id}, nil
		}
		if o.follower(id, EntryDelete) != nil {
			return nil, nil, nil
		}
		gone, err := newEntry(EntryDelete, NewID(), e.Lane, http.MethodDelete, nil)
		o.place++
		gone.Place, gone.ThreadID, gone.Target = o.place, e.ThreadID, id
		return []Entry{gone}, followers, err
	})
}

// Resend sends an entry that failed again, as a new write at the end of its lane (ES-13.2).
func (o *Outbox) Resend(ctx context.Context, id string) (Entry, error) {
	return o.resend(ctx, id, EntryFailed, func(*Entry) error { return nil })
}

// Resolve decides a conflict: the entry is sent again with that text, on top of that version of the message.
// Discard is the other decision. Current answers the message as it is from the entry's Problem.
func (o *Outbox) Resolve(ctx context.Context, id, content string, version int64) (Entry, error) {
	return o.resend(ctx, id, EntryConflict, func(e *Entry) error {
		e.IfMatch = version
		if e.Kind != EntryEdit {
			return nil
		}
		return setContent(e, content)
	})
}

func (o *Outbox) resend(ctx context.Context, id string, from EntryState, prepare func(*Entry) error) (Entry, error) {
	var again Entry
	err := o.change(ctx, id, func(e Entry, _ bool) ([]Entry, []string, error) {
		if e.State != from {
			return nil, nil, httpkit.NotSent("send entry %s again: it is %s", id, e.State)
		}
		again = e
		again.Body = slices.Clone(e.Body)
		if err := prepare(&again); err != nil {
			return nil, nil, err
		}
		o.place++
		again.Place = o.place
		err := renew(&again)
		return []Entry{again}, []string{id}, err
	})
	return again, err
}
