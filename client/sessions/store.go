package sessions

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// send stores batches in order until nothing is left or the run ends.
func (e *Executor) send() {
	for {
		batch := e.queue.take(e.run)
		stored := e.store(batch)
		if stored == 0 {
			return
		}
		e.queue.settle(stored)
	}
}

// store appends the first events of a batch, again and again while the lease is held, and answers how many; 0
// when the run has ended. Repeating is safe: events that are known keep their seq, so accepted may be less
// than what was sent (SS-EVT-2). A batch that is too large, for the server or for something in front of it, is cut, and so is one
// with an event that is refused, until that stands alone.
func (e *Executor) store(plain []wire.IncomingEvent) int {
	var wait backoff
	batch, replaced := e.seal(plain), false
	for len(batch) > 0 {
		_, err := e.client.AppendEvents(e.run, e.session, Append{Events: batch, Silent: e.options.Silent})
		switch {
		case err == nil:
			return len(batch)
		case refusesEvents(err) && len(batch) > 1:
			batch = batch[:len(batch)/2]
		case refusesEvents(err) && e.options.Refused != nil && !replaced:
			batch, replaced = e.instead(plain[0], err), true
		case e.refused("append events", err), !httpkit.Sleep(e.run, wait.next(retryAfter(err))):
			return 0
		}
	}
	return 0
}

// refusesEvents reports whether err is about what was sent, not about when or by whom.
func refusesEvents(err error) bool {
	refused := AsAPIError(err)
	return refused != nil && (refused.Status == http.StatusRequestEntityTooLarge || refused.Code == code.BadRequest)
}

// instead answers what Refused puts in an event's place, and nothing when that ends the run.
func (e *Executor) instead(event wire.IncomingEvent, refusal error) []wire.IncomingEvent {
	instead, ok := e.options.Refused(event, refusal)
	if !ok {
		e.refused("append events", refusal)
		return nil
	}
	instead, err := e.prepare(instead)
	if err != nil {
		e.end(fmt.Errorf("append events: %w", err))
		return nil
	}
	return e.seal([]wire.IncomingEvent{instead})
}

// seal answers a copy of the batch, sealed for those who are to read it now; as it is when nothing is sealed, and none when the
// run has ended.
func (e *Executor) seal(batch []wire.IncomingEvent) []wire.IncomingEvent {
	if e.options.Recipients == nil || len(batch) == 0 {
		return batch
	}
	var wait backoff
	for {
		boxes, err := e.sealOnce(batch)
		if err == nil {
			return boxes
		}
		if e.refused("seal events", err) || !httpkit.Sleep(e.run, wait.next(retryAfter(err))) {
			return nil
		}
	}
}

func (e *Executor) sealOnce(batch []wire.IncomingEvent) ([]wire.IncomingEvent, error) {
	recipients, err := e.options.Recipients(e.run)
	if err != nil {
		return nil, fmt.Errorf("find recipients: %w", err)
	}
	boxes := slices.Clone(batch)
	for i := range boxes {
		if boxes[i].Payload, err = Seal(boxes[i].Payload, recipients); err != nil {
			return nil, httpkit.NotSent("%w", err)
		}
	}
	return boxes, nil
}
