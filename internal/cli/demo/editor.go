package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/demo/script"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxIntents bounds what an editor may have in mind; the recording has fewer cues.
const maxIntents = 64

// intent is a control that the editor sends after some thinking.
type intent struct {
	after   time.Duration
	control wire.IncomingControl
}

// editor is a person who steers: it acts on cues.
type editor struct {
	*follower

	intents chan intent
	again   time.Duration // until it resumes what it paused
}

func newEditor(f *follower) *editor {
	return &editor{follower: f, intents: make(chan intent, maxIntents)}
}

// see takes note of an event. It does not block: the stream goes on meanwhile.
func (e *editor) see(event wire.Event) {
	if isPaused(event) {
		e.plan(e.again, wire.IncomingControl{Kind: wire.ControlResume, TurnID: event.TurnID})
		return
	}
	cue := e.run.Cue(event)
	if cue == nil {
		return
	}
	control := wire.IncomingControl{TurnID: event.TurnID}
	switch cue.Do {
	case script.ActApprove:
		control.Kind, control.AskID = wire.ControlApprove, askID(event)
	case script.ActPause:
		control.Kind, e.again = wire.ControlPause, cue.Again
	case script.ActSteer:
		control.Kind, control.Text = wire.ControlSteer, &cue.Text
	case script.ActSend:
		control.Kind, control.Text, control.TurnID = wire.ControlSend, &cue.Text, nil
	default:
		return // somebody else's
	}
	e.plan(cue.After, control)
}

func isPaused(event wire.Event) bool {
	payload, err := trace.Read(event)
	if err != nil {
		return false
	}
	state, ok := payload.(trace.RunState)
	return ok && state.State == trace.StatePaused
}

func askID(event wire.Event) *string {
	payload, err := trace.Read(event)
	if err != nil {
		return nil
	}
	if ask, ok := payload.(trace.Ask); ok {
		return &ask.AskID
	}
	return nil
}

func (e *editor) plan(after time.Duration, control wire.IncomingControl) {
	control.ID = fmt.Sprintf("%s-%s", control.Kind, e.Env.RandomID()[:8]) // one intention, one id (SS-CON-2)
	select {
	case e.intents <- intent{e.paced(after), control}:
	default:
		e.end(fmt.Errorf("plan %s: too much to do at once", control.Kind))
	}
}

// work sends what was planned, in order.
func (e *editor) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-e.intents:
			if err := e.send(ctx, next); err != nil && ctx.Err() == nil {
				e.end(err)
				return
			}
		}
	}
}

func (e *editor) send(ctx context.Context, next intent) error {
	timer := time.NewTimer(next.after)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if _, err := e.viewer.SendControl(ctx, next.control); err != nil {
		return fmt.Errorf("send %s: %w", next.control.Kind, err)
	}
	return nil
}

// editorActs is how many controls the recording has the editor send: approve, pause, resume, steer and send.
const editorActs = 5
