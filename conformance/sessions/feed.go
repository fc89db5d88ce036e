package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// frame is one frame of a stream, in order of arrival. SSE comments have the name "comment".
type frame struct {
	name string
	id   string // SSE id line
	data []byte // for a comment its text
	at   time.Time
}

// ending is how a stream ended: a close code (WebSocket, or the SSE closed frame), or 0.
type ending struct {
	code int
	err  error
}

// feed is one open stream, over SSE or WebSocket. One goroutine reads it into a bounded channel and
// blocks when that is full; the case reads it from one goroutine.
type feed struct {
	t         *trial
	transport string
	frames    chan frame
	end       ending // valid once frames is closed
	cancel    context.CancelFunc
	write     func(data []byte) error // WebSocket only
	subproto  string                  // what the server chose

	once sync.Once
	past []frame // everything the case has read, for checks and messages
}

const heldFrames = 4096

func newFeed(t *trial, transport string) (*feed, context.Context) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &feed{t: t, transport: transport, frames: make(chan frame, heldFrames), cancel: cancel}
	t.Cleanup(f.close)
	return f, ctx
}

// close hangs up without a goodbye and waits for the reader.
func (f *feed) close() {
	f.once.Do(func() {
		f.cancel()
		for range f.frames { // the reader ends when its connection does
		}
	})
}

// take answers the next frame; ok is false when the stream ended or nothing came within.
func (f *feed) take(within time.Duration) (got frame, ok bool) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case got, ok = <-f.frames:
		if ok {
			f.past = append(f.past, got)
		}
		return got, ok
	case <-timer.C:
		return frame{}, false
	case <-f.t.Context().Done():
		return frame{}, false
	}
}

// next answers the next frame of this name that fits, passing over the others.
func (f *feed) next(name string, fits ...func(frame) bool) frame {
	return f.nextWithin(patience, name, fits...)
}

func (f *feed) nextWithin(within time.Duration, name string, fits ...func(frame) bool) frame {
	deadline := time.Now().Add(within)
	for {
		got, ok := f.take(time.Until(deadline))
		if !ok {
			f.t.Errorf("%s: no %q frame within %s; the stream had: %s", f.transport, name, within, f.told())
			f.t.FailNow()
		}
		if got.name == name && !slices.ContainsFunc(fits, func(fit func(frame) bool) bool { return !fit(got) }) {
			return got
		}
	}
}

// told shows the last frames for a message.
func (f *feed) told() string {
	var lines []string
	for _, got := range f.past[max(0, len(f.past)-12):] {
		lines = append(lines, got.name+" "+rulebook.Shorten(string(got.data)))
	}
	return strings.Join(lines, " | ")
}

// live waits for the lease frame that follows the replay.
func (f *feed) live() *feed {
	f.next(wire.FrameLease)
	return f
}

// events answers the next n events.
func (f *feed) events(n int) []wire.Event {
	read := make([]wire.Event, 0, n)
	for len(read) < n {
		read = append(read, eventOf(f.t, f.next(wire.FrameEvent)))
	}
	return read
}

// ended waits for the end and answers it, and the frames that still came.
func (f *feed) ended(within time.Duration) (ending, []frame) {
	deadline := time.Now().Add(within)
	var rest []frame
	for time.Until(deadline) > 0 {
		got, ok := f.take(time.Until(deadline))
		if ok {
			rest = append(rest, got)
			continue
		}
		select {
		case _, open := <-f.frames:
			if !open {
				return f.end, rest
			}
		default:
		}
	}
	f.t.Errorf("%s: the stream is still open after %s: %s", f.transport, within, f.told())
	f.t.FailNow()
	return ending{}, nil
}

// send writes one message up a WebSocket.
func (f *feed) send(message any) {
	data, isText := message.(string)
	if !isText {
		encoded, err := json.Marshal(message)
		require.NoError(f.t, err)
		data = string(encoded)
	}
	require.NoError(f.t, f.write([]byte(data)), "send %s", rulebook.Shorten(data))
}

// ask sends a message with a fresh ref and answers its ack or error.
func (f *feed) ask(message object) frame {
	ref := newID()
	message["ref"] = ref
	f.send(message)
	deadline := time.Now().Add(patience)
	for {
		got, ok := f.take(time.Until(deadline))
		if !ok {
			f.t.Errorf("no answer to %v; the socket had: %s", message, f.told())
			f.t.FailNow()
		}
		var head struct{ Ref string }
		if (got.name == wire.FrameAck || got.name == wire.FrameError) && decode(got.data, &head) == nil && head.Ref == ref {
			return got
		}
	}
}

// opener opens a stream of a session as u over one transport; query begins with ? or is empty.
type opener struct {
	transport string
	open      func(u *caller, r *room, query string) *feed
}

// transports are the two ways to the same frames.
func transports() []opener {
	return []opener{{"SSE", openSSE}, {"WebSocket", openWebSocket}}
}

// bothWays makes one case per transport.
func bothWays(c testCase, run func(t *trial, open opener)) []testCase {
	var made []testCase
	for _, o := range transports() {
		one := c
		one.name = fmt.Sprintf("%s (%s)", c.name, o.transport)
		one.run = func(t *trial) { run(t, o) }
		made = append(made, one)
	}
	return made
}

func eventOf(t *trial, f frame) wire.Event {
	require.Equal(t, wire.FrameEvent, f.name)
	var read wire.Event
	require.NoError(t, decode(f.data, &read), rulebook.Shorten(string(f.data)))
	return read
}

// leaseFrame is the body of a lease frame.
type leaseFrame struct {
	Holder    *string    `json:"holder_device_id"`
	ExpiresAt *wire.Time `json:"expires_at"`
}

func leaseOf(t *trial, f frame) leaseFrame {
	var read leaseFrame
	require.NoError(t, decode(f.data, &read), rulebook.Shorten(string(f.data)))
	return read
}

func presenceOf(t *trial, f frame) wire.Presence {
	var read wire.Presence
	require.NoError(t, decode(f.data, &read), rulebook.Shorten(string(f.data)))
	return read
}

// heldBy fits lease frames of this holder; "" is nobody.
func heldBy(device string) func(frame) bool {
	return func(f frame) bool {
		var read leaseFrame
		return decode(f.data, &read) == nil && ((read.Holder == nil && device == "") || (read.Holder != nil && *read.Holder == device))
	}
}

// presenceFrame fits presence frames of a device.
func presenceFrame(device string, online bool) func(frame) bool {
	return func(f frame) bool {
		var read wire.Presence
		return decode(f.data, &read) == nil && read.DeviceID == device && read.Online != nil && *read.Online == online
	}
}

// eventKind fits event frames of a kind.
func eventKind(kind string) func(frame) bool {
	return func(f frame) bool {
		var read wire.Event
		return decode(f.data, &read) == nil && read.Kind == kind
	}
}

// controlFrame fits control frames of an id.
func controlFrame(id string, applied bool) func(frame) bool {
	return func(f frame) bool {
		var read wire.Control
		return decode(f.data, &read) == nil && read.ID == id && read.Applied == applied
	}
}

// frameFields answers the fields a frame has over this transport: the WebSocket ones carry t.
func (o opener) frameFields(fields ...string) []string {
	if o.transport == "WebSocket" {
		return plus(fields, "v", "t")
	}
	return plus(fields, "v")
}
