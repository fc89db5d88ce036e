package history

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// The parts of a message that a program may need (SS-LEASE-1, SS-EVT-2).
var (
	holderIn  = regexp.MustCompile(`\(holder_device_id=([0-9a-f-]{36})\)$`)
	lastSeqIn = regexp.MustCompile(`last_seq=(\d+)`)
)

func conflict(answer Answer) (Outcome, error) {
	refusal := answer.Error()
	out := Outcome{Known: true, Code: refusal.Code}
	switch refusal.Code {
	case "lease_held":
		if found := holderIn.FindStringSubmatch(refusal.Message); found != nil {
			out.Holder = found[1]
		}
		return out, nil
	case "seq_conflict":
		found := lastSeqIn.FindStringSubmatch(refusal.Message)
		if found == nil {
			return out, fmt.Errorf("%w: no last_seq in %q", errUnexpected, refusal.Message)
		}
		var err error
		out.LastSeq, err = strconv.ParseInt(found[1], 10, 64)
		return out, err
	default:
		return out, fmt.Errorf("%w: %s", errUnexpected, answer)
	}
}

// executor is one device of the owner's that wants to execute.
type executor struct {
	worker

	seen    int64           // last_seq as it knows it
	pending []wire.Control  // to apply
	asked   map[string]bool // controls it has asked to apply
	counter int
}

func newExecutor(r *run, number int) *executor {
	return &executor{worker: r.worker(number, r.Owner), asked: map[string]bool{}}
}

// work does one thing after the other, in no order that anybody planned.
func (e *executor) work() {
	for e.goOn() {
		switch dice := rand.N(100); {
		case dice < 14:
			e.claim(true)
		case dice < 22:
			e.claim(e.ForceOnly)
		case dice < 27:
			e.release()
		case dice < 37:
			e.renew()
		case dice < 47:
			e.read()
		case dice < 57:
			e.apply()
		case dice < 70:
			expected := e.seen
			e.append(&expected)
		default:
			e.append(nil)
		}
	}
}

func nothing(Answer, *Outcome) error { return nil }

func (e *executor) claim(force bool) {
	e.attempt(Op{Kind: Claim, Force: force}, http.MethodPost, sessionPath(e.session, "/lease"), map[string]bool{"force": force}, nothing)
}

func (e *executor) renew() {
	e.attempt(Op{Kind: Renew}, http.MethodPut, sessionPath(e.session, "/lease"), nil, nothing)
}

func (e *executor) release() {
	if e.ForceOnly {
		e.renew()
		return
	}
	e.attempt(Op{Kind: Release}, http.MethodDelete, sessionPath(e.session, "/lease"), nil, func(a Answer, o *Outcome) error {
		var body struct{ Released bool }
		err := a.Into(&body)
		o.Released = body.Released
		return err
	})
}

func (e *executor) read() {
	op := e.attempt(Op{Kind: Read}, http.MethodGet, sessionPath(e.session, ""), nil, func(a Answer, o *Outcome) error {
		var body wire.SessionDetail
		err := a.Into(&body)
		o.LastSeq = body.LastSeq
		if body.Lease != nil {
			o.Holder = body.Lease.DeviceID
		}
		return err
	})
	if op.OK() {
		e.seen = op.LastSeq
	}
}

// append sends a batch until its fate is known: stored, or refused. A retry leaves the condition out,
// because the first try may have moved the log itself (SS-EVT-2).
func (e *executor) append(expected *int64) {
	batch := make([]wire.IncomingEvent, 1+rand.N(max(e.Batch, 4)))
	op := Op{Kind: Append, Expected: expected}
	padding := strings.Repeat("-", e.Pad)
	for i := range batch {
		e.counter++
		id := fmt.Sprintf("e-%d", e.counter)
		batch[i] = wire.IncomingEvent{
			Kind: "assistant", ClientEventID: &id,
			Payload: []byte(fmt.Sprintf(`{"text":"%s of %d","n":9007199254740993,"n":-0,"big":1e400,"pad":"%s"}`, id, e.number, padding)),
		}
		op.IDs = append(op.IDs, id)
	}
	e.sends(e.Device, batch)
	for e.ctx.Err() == nil {
		body := map[string]any{"events": batch}
		if op.Expected != nil {
			body["expected_last_seq"] = *op.Expected
		}
		done := e.attempt(op, http.MethodPost, sessionPath(e.session, "/events"), body, readReceipt)
		if done.Known {
			e.seen = max(e.seen, done.LastSeq)
			return
		}
		op.Expected = nil
	}
}

func readReceipt(a Answer, o *Outcome) error {
	var receipt wire.Receipt
	err := a.Into(&receipt)
	o.LastSeq, o.Accepted = receipt.LastSeq, receipt.Accepted
	for _, entry := range receipt.Events {
		o.Seqs = append(o.Seqs, entry.Seq)
	}
	return err
}

// apply marks the oldest pending control it knows as applied, or looks for some.
func (e *executor) apply() {
	if len(e.pending) == 0 {
		var page struct{ Controls []wire.Control }
		answer, err := e.Do(e.ctx, http.MethodGet, sessionPath(e.session, "/controls"), nil)
		if err == nil && answer.Status == http.StatusOK && answer.Into(&page) == nil {
			e.pending = page.Controls
		}
		return
	}
	control := e.pending[0]
	op := Op{Kind: Applied, ID: control.ID, Again: e.asked[control.ID]}
	done := e.attempt(op, http.MethodPost, sessionPath(e.session, "/control/"+url.PathEscape(control.ID)+"/applied"), nil, nothing)
	e.asked[control.ID] = true
	if done.Known {
		e.pending = e.pending[1:]
	}
}

// editor sends controls.
type editor struct{ worker }

func (e *editor) work() {
	kinds := wire.ControlKinds()
	for e.goOn() {
		text := "go on"
		control := wire.IncomingControl{ID: uuid.NewString(), Kind: kinds[rand.N(len(kinds))], Text: &text}
		e.steers(control)
		for e.ctx.Err() == nil {
			done := e.attempt(Op{Kind: Control, ID: control.ID}, http.MethodPost, sessionPath(e.session, "/control"), control, readControl)
			if done.Known {
				break
			}
		}
	}
}

func readControl(a Answer, o *Outcome) error {
	var receipt wire.ControlReceipt
	err := a.Into(&receipt)
	o.Seq, o.Duplicate = receipt.Seq, receipt.Duplicate
	if a.Status == http.StatusAccepted == receipt.Duplicate {
		return fmt.Errorf("%w: %s", errUnexpected, a)
	}
	return err
}
