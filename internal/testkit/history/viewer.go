package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// viewer follows the session, hangs up at random and resumes from the highest seq it has.
type viewer struct {
	worker

	transport Transport
	view      *View
	seen      int64
}

func newViewer(r *run, number int, transport Transport) *viewer {
	v := &viewer{
		worker: r.worker(number, r.Viewer), transport: transport,
		view: &View{Name: fmt.Sprintf("%s viewer %d", transport, number), Applied: map[string]bool{}},
	}
	if r.Dawdle > 0 {
		v.HTTP = narrow()
	}
	r.history.Views = append(r.history.Views, v.view)
	return v
}

func (v *viewer) work() {
	for !v.complete() {
		stream, refusal, err := v.Open(v.ctx, v.transport, v.session, v.seen)
		if v.ctx.Err() != nil {
			v.troublef("still at seq %d in the end, behind the log", v.seen)
			return
		}
		if refusal.Status >= http.StatusBadRequest && refusal.Status < http.StatusInternalServerError {
			v.troublef("refused: %s", refusal)
			return
		}
		if err != nil || stream == nil {
			pause(v.ctx, 10*time.Millisecond)
			continue
		}
		v.view.Opened++
		v.follow(stream)
		stream.Close()
	}
}

// follow reads a connection until it ends, or the viewer is tired of it.
func (v *viewer) follow(stream *Stream) {
	tired := time.NewTimer(rand.N(800*time.Millisecond + 4*v.Dawdle + 1))
	defer tired.Stop()
	settled := v.settled
	for !v.complete() {
		select {
		case frame, open := <-stream.Frames:
			if !open {
				v.view.Cut++
				return
			}
			v.take(frame)
			if v.Dawdle > 0 && settled != nil && rand.N(20) == 0 {
				pause(v.ctx, v.Dawdle)
			}
		case <-settled:
			settled = nil // look whether everything is here
		case <-tired.C:
			if settled != nil {
				return // at the end it stays, so that a lost wake-up shows
			}
		case <-v.ctx.Done():
			return
		}
	}
}

// complete reports whether the workload is over and everything has come.
func (v *viewer) complete() bool {
	select {
	case <-v.settled:
		return v.seen >= v.last
	default:
		return false
	}
}

func (v *viewer) take(frame Frame) {
	switch frame.Name {
	case wire.FrameEvent:
		var event wire.Event
		if err := json.Unmarshal(frame.Data, &event); err != nil {
			v.troublef("unreadable event %q: %v", frame.Data, err)
			return
		}
		if event.Seq != v.seen+1 {
			v.troublef("seq %d after %d", event.Seq, v.seen)
		}
		v.seen = event.Seq
		v.view.Events = append(v.view.Events, event)
	case wire.FrameControl:
		var control struct {
			ID      string
			Seq     int64
			Applied bool
		}
		if err := json.Unmarshal(frame.Data, &control); err != nil {
			v.troublef("unreadable control %q: %v", frame.Data, err)
			return
		}
		if control.Seq > v.seen {
			v.troublef("control of seq %d before its event, at %d", control.Seq, v.seen)
		}
		if control.Applied {
			v.view.Applied[control.ID] = true
		}
	case wire.FrameReset:
		v.troublef("reset at seq %d: %s", v.seen, frame.Data)
		v.seen = 0
	default:
	}
}

func (v *viewer) troublef(format string, args ...any) {
	v.view.Trouble = append(v.view.Trouble, fmt.Sprintf(format, args...))
}
