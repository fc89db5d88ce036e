package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/demo/network"
	"github.com/cairnsync/cairn/internal/cli/demo/script"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// tally is what a follower received.
type tally struct {
	Events     int64  `json:"events"`
	Gaps       int64  `json:"gaps"`       // events that came although one before them had not
	Duplicates int64  `json:"duplicates"` // events that came again
	Reconnects int64  `json:"reconnects"`
	Digest     string `json:"digest"` // of the log, see digest
}

// digest is the SHA-256 over the events of a log in order, each as JSON in one line.
type digest struct{ hash hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func (d digest) add(event wire.Event) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(event); err != nil {
		return fmt.Errorf("encode event %d: %w", event.Seq, err)
	}
	d.hash.Write(line.Bytes()) // never fails
	return nil
}

func (d digest) String() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// outage is how long a lost connection stays lost.
const outage = 1500 * time.Millisecond

// errComplete ends a follower that has the whole log.
var errComplete = errors.New("log is complete")

// follower follows a session, and tells what it gets.
type follower struct {
	*actor

	line   *network.Line
	viewer *client.Viewer
	editor *editor // or nil
	digest digest

	mu    sync.Mutex // guards what follows
	tally tally
	until int64 // complete with this event; 0 is not known yet
	end   context.CancelCauseFunc
}

// follow follows the session until it has what Run orders.
func (a *actor) follow(ctx context.Context, orders <-chan order) error {
	f := &follower{actor: a, line: network.New(a.Env), digest: newDigest()}
	c, err := a.connect(a.platform(), f.line)
	if err != nil {
		return err
	}
	defer c.Close()
	following, end := context.WithCancelCause(ctx)
	defer end(nil)
	f.end = end
	f.viewer = c.View(a.Session, client.ViewOptions{Transport: a.transport()})
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer end(nil)
	helpers.Go(func() { f.obey(following, orders) })
	if a.Role == roleEditor {
		f.viewer.SetDriving(true)
		f.editor = newEditor(f)
		helpers.Go(func() { f.editor.work(following) })
	}
	err = f.viewer.Run(following, f.take)
	if !errors.Is(context.Cause(following), errComplete) {
		return errors.Join(err, causeOf(following))
	}
	return a.say(report{Kind: saidDone, Tally: f.result()})
}

// causeOf answers why a context ended if it tells more than that it did.
func causeOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return cause //nolint:wrapcheck // it was made by us
	}
	return nil
}

func (a *actor) transport() client.Transport {
	if a.Socket {
		return client.WebSocket
	}
	return client.SSE
}

func (a *actor) platform() wire.Platform {
	switch {
	case a.Role == roleEditor:
		return wire.PlatformDesktop
	case a.Socket:
		return wire.PlatformWeb
	default:
		return wire.PlatformAndroid
	}
}

func (f *follower) obey(ctx context.Context, orders <-chan order) {
	select {
	case <-ctx.Done():
	case given := <-orders:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.until = given.Until
		f.endIfComplete()
	}
}

// endIfComplete ends the follower when it has everything; the lock is held.
func (f *follower) endIfComplete() {
	if f.until > 0 && f.tally.Events >= f.until {
		f.end(errComplete)
	}
}

// result answers the tally with what the client saw on the wire and kept away.
func (f *follower) result() *tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	stats, t := f.viewer.Stats(), f.tally
	t.Gaps += stats.Holes
	t.Duplicates += stats.Duplicates
	t.Reconnects = stats.Connects - 1
	t.Digest = f.digest.String()
	return &t
}

func (f *follower) take(frame client.Frame) error {
	switch frame := frame.(type) {
	case client.EventFrame:
		return f.event(frame.Event)
	case client.LeaseFrame:
		return f.say(report{Kind: saidLease, Lease: &frame})
	case client.PresenceFrame:
		return f.say(report{Kind: saidPresence, Presence: &frame.Presence})
	case client.ConnectionFrame:
		if frame.State == client.Connected {
			return f.say(report{Kind: saidConnected, Seq: f.viewer.LastSeq()})
		}
		return f.say(report{Kind: saidLost, Seq: f.viewer.LastSeq()})
	case client.ResetFrame:
		return errors.New("follow session: the server lost its log")
	default:
		return nil
	}
}

// event counts for itself, whatever the client library proves.
func (f *follower) event(event wire.Event) error {
	if err := f.digest.add(event); err != nil {
		return err
	}
	if err := f.say(report{Kind: saidEvent, Event: &event}); err != nil {
		return err
	}
	f.count(event.Seq)
	if cue := f.run.Cue(event); cue != nil && cue.Do == script.ActCut && f.Fragile {
		f.line.Cut(f.paced(outage))
	}
	if f.editor != nil {
		f.editor.see(event)
	}
	return nil
}

func (f *follower) count(seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch expected := f.tally.Events + 1; {
	case seq > expected:
		f.tally.Gaps++
	case seq < expected:
		f.tally.Duplicates++
	}
	f.tally.Events++
	f.endIfComplete()
}
