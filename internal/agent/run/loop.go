package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Times of the loop.
const (
	// gatherFor is how long pieces of text are gathered; with batchWait it stays under 200 ms.
	gatherFor = 150 * time.Millisecond
	tick      = 250 * time.Millisecond
	// finishWithin bounds the marking and storing of what is left, when Stop's context does not.
	finishWithin = 10 * time.Second
)

// call is something to be done in the loop.
type call struct {
	do   func()
	done chan struct{}
}

// inLoop does something in the loop and waits for it; it answers false when ctx or the loop ended first.
func (r *Runner) inLoop(ctx context.Context, do func()) bool {
	asked := call{do, make(chan struct{})}
	select {
	case r.calls <- asked:
	case <-ctx.Done():
		return false
	case <-r.ended:
		return false
	}
	<-asked.done
	return true
}

// run is the loop: everything that touches the machine happens here, one thing after the other.
func (r *Runner) run() {
	defer close(r.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for r.stopping.Err() == nil && r.executor.Context().Err() == nil { // no call may go on what has ended
		select {
		case asked := <-r.calls:
			asked.do()
			close(asked.done)
		case <-r.flush.C:
			r.handle(gotOutput{payloads: r.translator.Flush()})
		case <-ticker.C:
			r.watch()
		case <-r.stopping.Done():
		case <-r.executor.Context().Done():
		}
	}
	r.finish()
}

// handle gives the machine an input and carries out what it answers, in order.
func (r *Runner) handle(in input) {
	for _, next := range r.machine.handle(in) {
		r.carry(next)
	}
	r.gate.set(r.machine.paused)
	if !r.machine.idle() {
		r.idleSince = r.o.Env.Now()
	}
}

func (r *Runner) carry(next effect) {
	switch next := next.(type) {
	case say:
		r.emit(next.turn, next.payload)
	case mark:
		r.queueMark(next.control)
	case confirm:
		r.worked = 0
		r.translator.Begin()
		r.workers.Go(func() { r.confirm(next.turn) })
	case prompt:
		r.prompt(next.text)
	case interrupt:
		r.interrupt()
	case reply:
		if answer, waits := r.replies[next.ask]; waits {
			delete(r.replies, next.ask)
			answer <- next.option // there is room for one
		}
	case release:
		r.gate.set(false)
	}
}

// emit queues an event. While the queue is full it holds the loop, and with it the agent; a stop lets the last ones through.
func (r *Runner) emit(turn string, payload trace.Payload) {
	event, err := trace.New(turn, payload)
	if err != nil {
		event = missing(turn, payload.Kind(), err)
	}
	err = r.executor.Emit(r.stopping, event)
	if err != nil && r.stopping.Err() != nil {
		err = r.executor.EmitLast(event)
	}
	switch {
	case err == nil, r.executor.Context().Err() != nil: // the loop sees the end itself
	case errors.Is(err, sessions.ErrNoJournalRoom):
		r.noRoom(turn, event, err)
	default: // larger than the server takes
		r.o.Log.Error("emit event", "kind", payload.Kind(), "error", err)
		if err := r.executor.EmitLast(missing(turn, payload.Kind(), err)); err != nil {
			r.o.Log.Error("emit event", "kind", trace.KindError, "error", err)
		}
	}
}

// noRoom stops the runner when nothing can be written down any more. What closes the session is stored all the same if the server
// can be reached.
func (r *Runner) noRoom(turn string, event wire.IncomingEvent, err error) {
	r.full = fmt.Errorf("the agent was stopped: %w", err)
	r.askStop()
	for _, last := range []wire.IncomingEvent{event, trace.Must(turn, trace.Failure{Message: r.full.Error(), Code: "journal_full"})} {
		if err := r.executor.EmitLast(last); err != nil {
			r.o.Log.Error("emit event", "kind", last.Kind, "error", err)
		}
	}
}

// missing says that an event is not there.
func missing(turn, kind string, err error) wire.IncomingEvent {
	return trace.Must(turn, trace.Failure{Message: "an event of kind " + kind + " is missing here: " + err.Error(), Code: "event_refused"})
}

// confirm tells the machine when what was said of a turn is stored.
func (r *Runner) confirm(turn string) {
	if r.executor.Flush(r.life) == nil {
		r.inLoop(r.life, func() { r.handle(turnStored{turn}) })
	}
}

// queueMark has a control marked; one that cannot be any more stays pending, and what was said of it tells the next executor.
func (r *Runner) queueMark(control string) {
	select {
	case r.marks <- control:
	case <-r.executor.Context().Done():
	}
}

// mark marks controls as applied, each after what was said before it is stored.
func (r *Runner) mark() {
	defer close(r.marked)
	for id := range r.marks {
		if r.executor.Flush(r.life) != nil || r.executor.MarkApplied(id) != nil {
			return // the executor ends
		}
	}
}

// watch looks at the limits of time.
func (r *Runner) watch() {
	now := r.o.Env.Now()
	if r.machine.working() {
		r.worked += now.Sub(r.ticked)
	}
	r.ticked = now
	switch {
	case !r.killAt.IsZero() && now.After(r.killAt):
		r.kill()
	case !r.killAt.IsZero() && now.After(r.cancelAt):
		r.cancel()
	case r.overQuiet(now):
		r.handle(overdue{trace.Deadline{Budget: trace.BudgetRequest, MS: r.o.QuietLimit.Milliseconds()}})
	case r.o.TurnLimit > 0 && r.worked > r.o.TurnLimit && r.machine.working():
		r.handle(overdue{trace.Deadline{Budget: trace.BudgetTurn, MS: r.o.TurnLimit.Milliseconds()}})
	case r.o.Linger > 0 && r.machine.idle() && now.Sub(r.idleSince) > r.o.Linger:
		r.askStop()
	}
}

func (r *Runner) overQuiet(now time.Time) bool {
	if r.o.QuietLimit < 0 || r.agent == nil || !r.machine.working() || r.agent.Busy() {
		return false
	}
	last := r.agent.Activity()
	if last.Before(r.began) {
		last = r.began
	}
	return now.Sub(last) > r.o.QuietLimit
}

// finish ends everything, in order: the turn, the agent, the marks, the lease.
func (r *Runner) finish() {
	if r.executor.Context().Err() == nil {
		r.handle(gotOutput{payloads: r.translator.Close(trace.ToolCancelled)})
		r.handle(leaving{"the executor stopped"})
	} else {
		r.handle(gotOutput{payloads: r.translator.Flush()}) // into the journal; the next executor closes what is open
	}
	r.gate.set(false)
	close(r.ended)
	if r.quitStart != nil {
		r.quitStart()
	}
	ended := r.endLast()
	close(r.marks)
	ctx, cancel := context.WithTimeout(r.life, finishWithin)
	defer cancel()
	select {
	case <-r.marked:
	case <-ctx.Done():
	}
	stopped := r.executor.Stop(ctx)
	<-r.marked
	r.endLife()
	r.workers.Wait()
	settled := r.settle()
	r.err = errors.Join(r.full, r.unsaid(stopped), ended, settled, r.close())
}

// unsaid leaves out of a joined error what the last words say better.
func (r *Runner) unsaid(err error) error {
	joined, is := err.(interface{ Unwrap() []error })
	if !is || r.lastWords == "" {
		return err
	}
	var rest []error
	for _, part := range joined.Unwrap() {
		if !errors.Is(part, sessions.ErrUnsent) || len(joined.Unwrap()) == 1 {
			rest = append(rest, r.unsaid(part))
		}
	}
	return errors.Join(rest...)
}

// endLast ends the agent: in peace, but at once when the lease is lost, because another one may be at work (SS-CON-3).
func (r *Runner) endLast() error {
	if r.executor.Lost() == nil || r.agent == nil {
		return r.endAgent(r.agent)
	}
	now, cancel := context.WithCancel(r.life)
	cancel()
	return r.agent.Stop(now)
}

// settle says what becomes of events that were not stored.
func (r *Runner) settle() error {
	left := r.journal.Waiting()
	lost := r.executor.Lost()
	switch {
	case left == 0:
		return nil
	case lost != nil && lost.Reason != sessions.LossUnreachable:
		return r.setAside("the lease was lost")
	default:
		r.lastly(keptWords(left, r.o.Folder))
		return nil
	}
}
