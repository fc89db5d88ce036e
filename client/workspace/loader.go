package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// maxThreads bounds the list of an open channel; the server lists the most recent first.
	maxThreads = 5000
	// windowPage is how many messages a thread is opened with, and loaded by at a time.
	windowPage = 100
	// tailPages is how many pages of new messages are loaded; beyond them the thread is opened anew.
	tailPages = 10
)

// notThere reports whether err says that the object is not there, or not visible.
func notThere(err error) bool {
	refused := AsProblem(err)
	return refused != nil && (refused.Status == http.StatusNotFound || refused.Status == http.StatusGone || IsCode(err, code.Forbidden))
}

// Load loads a Need and gives it to the State. It reports false when it has to be loaded again, because
// too much changed meanwhile.
func (c *Client) Load(ctx context.Context, s *State, n Need) (bool, error) {
	load := s.Begin(n)
	done, err := c.load(ctx, s, load)
	switch {
	case err == nil:
		return done, nil
	case notThere(err):
		load.Gone()
		return true, nil
	default:
		load.Abandon()
		return false, fmt.Errorf("load %s: %w", n, err)
	}
}

func (c *Client) load(ctx context.Context, s *State, load *Load) (bool, error) {
	switch id := load.Need.ID; load.Need.Kind {
	case NeedSnapshot:
		snapshot, err := c.Snapshot(ctx)
		return done(err, func() bool { return load.Snapshot(snapshot) })
	case NeedPersonal:
		loaded, err := c.loadPersonal(ctx)
		return done(err, func() bool { return load.Personal(loaded) })
	case NeedMessage:
		message, err := c.Message(ctx, id)
		return done(err, func() bool { return load.Message(message) })
	case NeedThread:
		thread, err := c.Thread(ctx, id)
		return done(err, func() bool { return load.Thread(thread) })
	case NeedChannel:
		threads, err := c.allThreads(ctx, id)
		return done(err, func() bool { return load.Threads(threads) })
	case NeedWindow:
		loaded, err := c.loadWindow(ctx, id, 0)
		return done(err, func() bool { return load.Window(loaded.thread, loaded.messages, loaded.pinned, loaded.complete) })
	case NeedTail:
		return c.loadTail(ctx, s, load)
	default:
		return false, fmt.Errorf("load %s: nobody knows how", load.Need)
	}
}

func done(err error, end func() bool) (bool, error) {
	if err != nil {
		return false, err
	}
	return end(), nil
}

func (c *Client) allThreads(ctx context.Context, channel string) ([]wire.Thread, error) {
	return All(ctx, maxThreads, func(ctx context.Context, at Paging) (wire.Page[wire.Thread], error) {
		return c.Threads(ctx, channel, at)
	})
}

func (c *Client) loadPersonal(ctx context.Context) (Personal, error) {
	var loaded Personal
	var err error
	if loaded.Drafts, err = All(ctx, 0, c.Drafts); err != nil {
		return loaded, err
	}
	if loaded.Settings, err = All(ctx, 0, c.Settings); err != nil {
		return loaded, err
	}
	if loaded.Prefs, err = All(ctx, 0, c.NotificationPrefs); err != nil {
		return loaded, err
	}
	quiet, err := c.QuietHours(ctx)
	if IsCode(err, code.NotFound) {
		return loaded, nil
	}
	loaded.Quiet = &quiet
	return loaded, err
}

// loadedWindow is a thread with messages.
type loadedWindow struct {
	thread   wire.Thread
	messages []wire.Message
	pinned   []wire.Message
	complete bool // there are no older messages
}

// loadWindow loads a thread's newest messages, with from all from that thread_seq on.
func (c *Client) loadWindow(ctx context.Context, id string, from int64) (loadedWindow, error) {
	var loaded loadedWindow
	var err error
	if loaded.thread, err = c.Thread(ctx, id); err != nil {
		return loaded, err
	}
	if from > 0 {
		loaded.messages, _, err = c.after(ctx, id, from-1, 0)
	} else {
		var newest wire.Messages
		newest, err = c.Messages(ctx, id, Range{Limit: windowPage})
		loaded.messages, loaded.complete = newest.Messages, !newest.HasMore
	}
	if err != nil {
		return loaded, err
	}
	loaded.pinned, err = All(ctx, 0, func(ctx context.Context, at Paging) (wire.Page[wire.Message], error) {
		return c.Pins(ctx, id, at)
	})
	return loaded, err
}

// after loads the messages above a thread_seq, at most so many pages; 0 is all. It reports whether that was all.
func (c *Client) after(ctx context.Context, thread string, seq int64, pages int) ([]wire.Message, bool, error) {
	var all []wire.Message
	for page := 0; pages == 0 || page < pages; page++ {
		part, err := c.Messages(ctx, thread, Range{After: seq, From: true, Limit: windowPage})
		if err != nil {
			return nil, false, err
		}
		all = append(all, part.Messages...)
		if !part.HasMore || len(part.Messages) == 0 {
			return all, true, nil
		}
		seq = part.Messages[len(part.Messages)-1].ThreadSeq
	}
	return all, false, nil
}

func (c *Client) loadTail(ctx context.Context, s *State, load *Load) (bool, error) {
	last, open := s.heldTo(load.Need.ID)
	if !open {
		return load.end(func(*State) bool { return true }), nil
	}
	messages, all, err := c.after(ctx, load.Need.ID, last, tailPages)
	if err != nil {
		return false, err
	}
	if !all {
		return load.again(NeedWindow), nil
	}
	return load.Tail(messages), nil
}

// again ends the Load and asks for another one in its place.
func (l *Load) again(kind NeedKind) bool {
	return l.end(func(s *State) bool { s.need(kind, l.Need.ID); return true })
}

// heldTo answers up to where a thread's messages are held without a gap.
func (s *State) heldTo(thread string) (int64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, open := s.windows.get(thread)
	if !open {
		return 0, false
	}
	return w.Last, true
}

// LoadOlder loads a page of an open thread's older messages into the State, and reports whether there are
// more.
func (c *Client) LoadOlder(ctx context.Context, s *State, thread string) (bool, error) {
	for range 3 {
		from, loaded := s.heldFrom(thread)
		if !loaded || from <= 1 {
			return false, nil
		}
		load := s.Begin(Need{Kind: "older", ID: thread})
		part, err := c.Messages(ctx, thread, Range{Before: from, Limit: windowPage})
		if err != nil {
			load.Abandon()
			return false, err
		}
		if load.Older(part.Messages, !part.HasMore) {
			return part.HasMore, nil
		}
	}
	return false, errors.New("load older messages: too much changed meanwhile")
}

func (s *State) heldFrom(thread string) (int64, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, open := s.windows.get(thread)
	return fromOf(w), open && w.Loaded
}

func fromOf(w *window) int64 {
	if w == nil {
		return 0
	}
	return w.From
}
