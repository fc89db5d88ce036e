package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// rows keeps the rows of gateway sessions: what a client that comes back goes on with, and which of a device's
// connections counts. Heartbeats and ends of many connections are written together.
type rows struct {
	g     *Gateway
	woken chan struct{}

	mu    sync.Mutex // guards everything below; each is bounded by the connections
	beats map[*session]struct{}
	looks map[string]struct{} // devices, "" for every one
	ends  []*session

	sweeps sweeps // belongs to run
}

// sweeps says when rows may be removed: not before everybody who is connected, here or on another node, had the time to have
// its row moved on, after it could not be.
type sweeps struct{ ticked, trouble time.Time }

// may is asked at each tick. round is in what time everybody who is connected sends a heartbeat.
func (w *sweeps) may(now time.Time, round time.Duration) bool {
	if now.Sub(w.ticked) > 2*sweepEvery { // also a first one, and one behind a database that did not answer
		w.trouble = now
	}
	w.ticked = now
	return now.Sub(w.trouble) >= round
}

const (
	// rowsAtOnce bounds one statement.
	rowsAtOnce = 200
	// gather is how long rows that change wait for others.
	gather = 10 * time.Millisecond
	// sweepEvery is how often rows nobody can resume any more are removed, and rows are looked at without a wake-up.
	sweepEvery = 30 * time.Second
)

func newRows(g *Gateway) *rows {
	return &rows{g: g, woken: make(chan struct{}, 1), beats: map[*session]struct{}{}, looks: map[string]struct{}{}}
}

// rowState is the column state.
type rowState struct {
	Focus wire.Focus `json:"focus"`
}

// claim makes s the one connection of its device, with a new gateway session.
func (r *rows) claim(ctx context.Context, s *session) error {
	err := r.g.DB.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(
			`INSERT INTO gateway_sessions (id, principal_id, device_id, sign_in_id, state, connection_id, created_at, seen_at)
			 VALUES ($1, $2, $3, $4, '{}', $5, $6, $7)
			 ON CONFLICT (principal_id, device_id) DO UPDATE SET id = excluded.id, sign_in_id = excluded.sign_in_id,
			        state = excluded.state, connection_id = excluded.connection_id, created_at = excluded.created_at, seen_at = excluded.seen_at`,
			s.id, s.caller.Principal, s.device, s.caller.SignIn, s.connection, tx.Now(), r.good(tx))
	})
	if err != nil {
		return fmt.Errorf("write gateway session: %w", err)
	}
	return nil
}

// good is until when a connection that was heard of just now counts as connected: the window for a resume begins then,
// unless its end is written before.
func (r *rows) good(tx storage.Tx) time.Time { return tx.Now().Add(r.g.Limits.HeartbeatInterval) }

// resumable is a gateway session that was taken over, and where the log was then.
type resumable struct {
	focus       wire.Focus
	minRetained int64
	epoch       string
}

// takeOver makes s the connection of a gateway session that there is, and answers it. One that is not the
// caller's, or ended too long ago, is refused with 4006.
func (r *rows) takeOver(ctx context.Context, s *session) (resumable, error) {
	mine := "" // an agent or app has a connection for each consumer, which only the row knows
	if s.caller.Kind == wire.KindUser {
		mine = s.caller.Device
	}
	type row struct {
		resumable

		device, state string
	}
	found, err := storage.Write(ctx, r.g.DB, nil, func(tx storage.Tx) (row, error) {
		var found row
		_, err := tx.Get(
			`UPDATE gateway_sessions SET connection_id = $1, sign_in_id = $2, seen_at = $3
			  WHERE id = $4 AND principal_id = $5 AND ($6 = '' OR device_id = $6) AND seen_at >= $7
			 RETURNING device_id, state, (SELECT min_retained_seq FROM instance), (SELECT sync_epoch FROM instance)`,
			[]any{s.connection, s.caller.SignIn, r.good(tx), s.id, s.caller.Principal, mine, tx.Now().Add(-r.g.Limits.ResumeWindow)},
			&found.device, &found.state, &found.minRetained, &found.epoch)
		return found, err
	})
	if err != nil {
		return resumable{}, fmt.Errorf("take gateway session over: %w", err)
	}
	if found.state == "" {
		return resumable{}, &refusal{code.CloseSessionInvalid, "There is no such gateway session any more."}
	}
	s.device = found.device
	var was rowState
	if err := json.Unmarshal([]byte(found.state), &was); err != nil {
		return resumable{}, fmt.Errorf("read state of gateway session: %w", err)
	}
	found.focus = was.Focus
	return found.resumable, nil
}

// beat asks for a look whether s is still the connection of its device, and moves its row on.
func (r *rows) beat(s *session) { r.note(func() { r.beats[s] = struct{}{} }) }

// lookAt asks whether a device's connections here still count; "" is every device.
func (r *rows) lookAt(device string) { r.note(func() { r.looks[device] = struct{}{} }) }

// ended lets the window for a resume begin.
func (r *rows) ended(s *session) { r.note(func() { r.ends = append(r.ends, s) }) }

func (r *rows) note(what func()) {
	r.mu.Lock()
	what()
	r.mu.Unlock()
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *rows) run() {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-r.g.ctx.Done():
			return
		case <-sweep.C:
			if r.sweeps.may(r.g.Env.Now(), r.g.Limits.HeartbeatInterval*time.Duration(r.g.Limits.HeartbeatMissLimit)) {
				r.sweep()
			}
			r.lookAt("")
			continue
		case <-r.woken:
		}
		wait := time.NewTimer(gather)
		select {
		case <-wait.C:
		case <-r.g.ctx.Done():
		}
		wait.Stop()
		if err := r.write(r.g.ctx); err != nil && r.g.ctx.Err() == nil {
			r.sweeps.trouble = r.g.Env.Now()
			r.g.Log.Error("gateway: cannot keep gateway sessions", "error", err)
		}
	}
}

// finish writes what is left when nobody is connected any more.
func (r *rows) finish(ctx context.Context) error { return r.write(ctx) }

// chore is what there is to write.
type chore struct{ beats, looked, ended []*session }

func (r *rows) next() chore {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := chore{ended: r.ends}
	for s := range r.beats {
		work.beats = append(work.beats, s)
	}
	looks := r.looks
	r.beats, r.looks, r.ends = map[*session]struct{}{}, map[string]struct{}{}, nil
	for device := range looks {
		work.looked = append(work.looked, r.g.connections(device)...)
	}
	return work
}

// write writes and looks. What fails waits for the next heartbeat; the ends of connections are bounded by their last
// one anyway.
func (r *rows) write(ctx context.Context) error {
	work := r.next()
	for some := range inChunks(work.ended) {
		if err := r.stamp(ctx, some, func(tx storage.Tx) time.Time { return tx.Now() }); err != nil {
			return err
		}
	}
	for some := range inChunks(work.beats) {
		if err := r.stamp(ctx, some, r.good); err != nil {
			return err
		}
		work.looked = append(work.looked, some...)
	}
	for some := range inChunks(work.looked) {
		if err := r.look(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// inChunks cuts a list into pieces for one statement.
func inChunks(all []*session) func(yield func([]*session) bool) {
	return func(yield func([]*session) bool) {
		for len(all) > 0 {
			n := min(len(all), rowsAtOnce)
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

func names(all []*session) (ids, connections []string) {
	for _, s := range all {
		ids, connections = append(ids, s.id), append(connections, s.connection)
	}
	return ids, connections
}

// stamp sets until when connections count as connected, where they are still those of their device.
func (r *rows) stamp(ctx context.Context, some []*session, until func(storage.Tx) time.Time) error {
	ids, connections := names(some)
	err := r.g.DB.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`UPDATE gateway_sessions SET seen_at = $1 WHERE id = ANY($2) AND connection_id = ANY($3)`, until(tx), ids, connections)
	})
	if err != nil {
		return fmt.Errorf("move gateway sessions on: %w", err)
	}
	return nil
}

// keepFocus writes the focus of a connection: whoever resumes it, here or elsewhere, gets it back.
func (r *rows) keepFocus(ctx context.Context, s *session, focus wire.Focus) error {
	state, err := json.Marshal(rowState{Focus: focus})
	if err != nil {
		return fmt.Errorf("encode state of gateway session: %w", err)
	}
	err = r.g.DB.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`UPDATE gateway_sessions SET state = $1 WHERE id = $2 AND connection_id = $3`, state, s.id, s.connection)
	})
	if err != nil {
		return fmt.Errorf("write state of gateway session: %w", err)
	}
	return nil
}

// look ends the connections whose device has a newer one, here or on another node (4017), and those that no row knows any
// more: they come back.
func (r *rows) look(ctx context.Context, some []*session) error {
	principals, devices := make([]string, len(some)), make([]string, len(some))
	for i, s := range some {
		principals[i], devices[i] = s.caller.Principal, s.device
	}
	holding, err := storage.Read(ctx, r.g.DB, func(tx storage.Tx) (map[holder]string, error) {
		holding := map[holder]string{}
		err := tx.Query(`SELECT principal_id, device_id, connection_id FROM gateway_sessions WHERE principal_id = ANY($1) AND device_id = ANY($2)`,
			[]any{principals, devices}, func(row storage.Row) error {
				var of holder
				var connection string
				err := row.Scan(&of.principal, &of.device, &connection)
				holding[of] = connection
				return err
			})
		return holding, err
	})
	if err != nil {
		return fmt.Errorf("look at gateway sessions: %w", err)
	}
	for _, s := range some {
		switch connection := holding[holder{s.caller.Principal, s.device}]; connection {
		case s.connection:
		case "":
			s.close(code.CloseUnknownError, "The gateway session is gone.")
		default:
			s.close(s.replacedCode(), "A newer connection of this device is active.")
		}
	}
	return nil
}

// holder is who has one connection.
type holder struct{ principal, device string }

func (s *session) replacedCode() code.Close {
	if s.caller.Kind == wire.KindUser {
		return code.CloseDeviceReplaced
	}
	return code.CloseConsumerReplaced
}

// connections answers the connections of a device that joined; "" is every device.
func (g *Gateway) connections(device string) []*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	if device != "" {
		return append([]*session(nil), g.devices[device]...)
	}
	var all []*session
	for _, some := range g.devices {
		all = append(all, some...)
	}
	return all
}

// sweep removes rows that nobody can resume any more.
func (r *rows) sweep() {
	err := r.g.DB.Write(r.g.ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`DELETE FROM gateway_sessions WHERE id IN (SELECT id FROM gateway_sessions WHERE seen_at < $1 ORDER BY seen_at LIMIT $2)`,
			tx.Now().Add(-2*r.g.Limits.ResumeWindow), rowsAtOnce)
	})
	if err != nil && r.g.ctx.Err() == nil {
		r.sweeps.trouble = r.g.Env.Now()
		r.g.Log.Error("gateway: cannot remove old gateway sessions", "error", err)
	}
}
