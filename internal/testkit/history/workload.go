package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// patience bounds one exchange, and the wait for what must come in the end.
const patience = 30 * time.Second

// Options are a workload.
type Options struct {
	// URL answers the base URL that a worker uses now.
	URL func(worker int) string
	// Owner, Editor and Viewer are keys of three accounts; Shares tells their e-mail addresses.
	Owner, Editor, Viewer    string
	EditorEmail, ViewerEmail string

	Executors, Editors, Viewers int
	// For is how long the workers begin new things.
	For time.Duration
	// ForceOnly leaves out releases and polite claims.
	ForceOnly bool
	// Loss is the share of requests whose answer is lost on purpose.
	Loss float64
	// Pause is the longest wait of a worker between two requests.
	Pause time.Duration
	// Batch is the most events of one append; 0 is 4.
	Batch int
	// Pad makes each payload that much longer.
	Pad int
	// Dawdle is how long a viewer lets a frame wait now and then, so that it is cut.
	Dawdle time.Duration
}

// run is a workload at work.
type run struct {
	Options
	*recorder

	t       testing.TB
	ctx     context.Context
	session string
	http    *http.Client
	over    chan struct{} // closed when nothing new begins
	last    int64         // the final last_seq; set before settled is closed
	settled chan struct{} // closed when the workers have ended
}

// Record runs a workload on a fresh session and answers its history. meanwhile runs beside it and may
// break things, as long as everything works again once it returns; nil is allowed.
func Record(t testing.TB, o Options, meanwhile func()) *History {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), o.For+4*patience)
	defer cancel()
	r := &run{
		Options: o, recorder: newRecorder(), t: t, ctx: ctx, http: NewHTTP(),
		over: make(chan struct{}), settled: make(chan struct{}),
	}
	defer r.http.CloseIdleConnections()
	r.history.ForceOnly = o.ForceOnly
	r.prepare()
	workers, viewers := r.begin()
	timer := time.AfterFunc(o.For, func() { close(r.over) })
	defer timer.Stop()
	if meanwhile != nil {
		meanwhile()
	}
	workers.Wait()
	r.settle()
	viewers.Wait()
	return r.history
}

// begin starts the workers: those that change the session, and those that watch.
func (r *run) begin() (workers, viewers *sync.WaitGroup) {
	workers, viewers = &sync.WaitGroup{}, &sync.WaitGroup{}
	number := 1
	for range r.Executors {
		e := newExecutor(r, number)
		workers.Go(e.work)
		number++
	}
	for range r.Editors {
		e := &editor{worker: r.worker(number, r.Editor)}
		workers.Go(e.work)
		number++
	}
	for i := range r.Viewers {
		transport := []Transport{SSE, WebSocket}[i%2]
		v := newViewer(r, number, transport)
		viewers.Go(v.work)
		number++
	}
	return workers, viewers
}

// prepare makes the session and its shares.
func (r *run) prepare() {
	owner := r.client(0, r.Owner)
	answer := r.must(owner, http.MethodPost, "/v1/sessions", map[string]any{})
	var made wire.Session
	require.NoError(r.t, answer.Into(&made))
	r.session = made.ID
	for email, role := range map[string]wire.Role{r.EditorEmail: wire.RoleEditor, r.ViewerEmail: wire.RoleViewer} {
		r.must(owner, http.MethodPost, sessionPath(r.session, "/shares"),
			map[string]any{"principal_type": "user", "email": email, "role": role})
	}
}

// settle reads what the server holds after everything.
func (r *run) settle() {
	defer close(r.settled)
	owner := r.client(0, r.Owner)
	after := int64(0)
	for {
		answer := r.must(owner, http.MethodGet, sessionPath(r.session, fmt.Sprintf("/events?limit=1000&after=%d", after)), nil)
		var page struct {
			LastSeq int64        `json:"last_seq"`
			Events  []wire.Event `json:"events"`
		}
		require.NoError(r.t, answer.Into(&page))
		r.history.Log = append(r.history.Log, page.Events...)
		r.last = page.LastSeq
		if len(page.Events) == 0 {
			break
		}
		after = page.Events[len(page.Events)-1].Seq
	}
	for after = 0; ; {
		answer := r.must(owner, http.MethodGet, sessionPath(r.session, fmt.Sprintf("/controls?applied=all&after=%d", after)), nil)
		var page struct{ Controls []wire.Control }
		require.NoError(r.t, answer.Into(&page))
		r.history.Final = append(r.history.Final, page.Controls...)
		if len(page.Controls) == 0 {
			break
		}
		after = page.Controls[len(page.Controls)-1].Seq
	}
}

// must asks until there is an answer, which must be a success.
func (r *run) must(c *Client, method, path string, body any) Answer {
	r.t.Helper()
	for {
		answer, err := c.Do(r.ctx, method, path, body)
		if err == nil && answer.Status < http.StatusInternalServerError {
			require.Less(r.t, answer.Status, http.StatusBadRequest, "%s %s → %s", method, path, answer)
			return answer
		}
		require.NoError(r.t, r.ctx.Err(), "%s %s → %s, %v", method, path, answer, err)
		pause(r.ctx, 20*time.Millisecond)
	}
}

func (r *run) client(number int, key string) *Client {
	return &Client{URL: func() string { return r.URL(number) }, Key: key, Device: uuid.NewString(), HTTP: r.http}
}

// worker is what executors, editors and viewers have in common.
type worker struct {
	*run
	*Client

	number int
}

func (r *run) worker(number int, key string) worker {
	return worker{r, r.client(number, key), number}
}

// goOn waits a little and reports whether the worker should begin something new.
func (w worker) goOn() bool {
	pause(w.ctx, rand.N(w.Pause+1))
	select {
	case <-w.over:
		return false
	case <-w.ctx.Done():
		return false
	default:
		return true
	}
}

// attempt makes one request for op and records it. The outcome is read by understand from a success.
func (w worker) attempt(op Op, method, path string, body any, understand func(Answer, *Outcome) error) Op {
	op.Worker, op.Device = w.number, w.Device
	op.Call, op.Return = w.now(), Never
	if rand.Float64() < w.Loss {
		cut := Cut(rand.N(2))
		answered, err := w.Lose(w.ctx, method, path, body, cut)
		if answered {
			op.Return = w.now()
		}
		if err == nil || !NotSent(err) {
			w.add(op)
		}
		return op
	}
	answer, err := w.Do(w.ctx, method, path, body)
	if NotSent(err) {
		pause(w.ctx, 10*time.Millisecond)
		return op
	}
	if err == nil { // otherwise the connection broke, and nobody knows
		op.Return = w.now()
		if op.Outcome, err = outcomeOf(answer, understand); err != nil {
			w.t.Errorf("worker %d: %s: %v", w.number, op.Kind, err)
		}
	}
	w.add(op)
	return op
}

// errUnexpected is an answer that no rule allows.
var errUnexpected = errors.New("unexpected answer")

// outcomeOf reads an answer. One of 5xx says nothing about what was done.
func outcomeOf(answer Answer, understand func(Answer, *Outcome) error) (Outcome, error) {
	var out Outcome
	switch {
	case answer.Status >= http.StatusInternalServerError:
		return out, nil
	case answer.Status == http.StatusConflict:
		return conflict(answer)
	case answer.Status >= http.StatusBadRequest:
		return out, fmt.Errorf("%w: %s", errUnexpected, answer)
	}
	out.Known = true
	return out, understand(answer, &out)
}

// pause waits for d, at most as long as ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
