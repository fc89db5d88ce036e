package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// recorder is a Sink that writes down what it is handed.
type recorder struct {
	mu      sync.Mutex // guards what follows
	at      workspace.Position
	heard   []string
	seqs    []int64
	pages   []int64
	reports []error
	client  *workspace.Client
	fail    error
	hold    func(ctx context.Context) // called for each event, without the lock
}

func (r *recorder) notef(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

func (r *recorder) count(what string) int {
	n := 0
	for _, heard := range r.all() {
		if heard == what {
			n++
		}
	}
	return n
}

func (r *recorder) report(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, err)
}

func (r *recorder) violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rules []string
	for _, err := range r.reports {
		if v, is := errors.AsType[*workspace.Violation](err); is {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}

func (r *recorder) Position(context.Context) (workspace.Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, nil
}

func (r *recorder) Ready(_ context.Context, ready wire.Ready, from workspace.Position) (workspace.Position, error) {
	r.notef("ready")
	if from.Known() {
		return from, nil
	}
	return workspace.Position{Seq: ready.HeadSeq, Epoch: ready.SyncEpoch}, nil
}

func (r *recorder) Resumed(context.Context, wire.Resumed) error { r.notef("resumed"); return nil }

func (r *recorder) Event(ctx context.Context, e workspace.Event) error {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		hold(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seqs = append(r.seqs, e.Seq)
	return r.fail
}

func (r *recorder) Page(_ context.Context, at workspace.Position) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.pages = at, append(r.pages, at.Seq)
	return nil
}

func (r *recorder) CaughtUp(context.Context) error { r.notef("live"); return nil }

func (r *recorder) Resync(ctx context.Context, why wire.Resync) (workspace.Position, error) {
	r.notef("resync %s", why.Reason)
	snapshot, err := r.client.Snapshot(ctx)
	return workspace.Position{Seq: snapshot.HeadSeq, Epoch: snapshot.SyncEpoch}, err
}

func (r *recorder) Ephemeral(_ context.Context, e workspace.Event) { r.notef("ephemeral %s", e.Type) }

func (r *recorder) Failed(_ context.Context, f wire.OpFailed) { r.notef("failed %s %s", f.Op, f.Code) }

func (r *recorder) Unknown(_ context.Context, op string, _ json.RawMessage) {
	r.notef("unknown %s", op)
}

func (r *recorder) Down(error) { r.notef("down") }

// running is a Gateway that runs until its test ends.
type running struct {
	*workspace.Gateway
	*recorder

	client *workspace.Client
	ended  chan error
	stop   func()
}

func run(t *testing.T, f *fake, change ...func(*workspace.GatewayOptions)) *running {
	t.Helper()
	client := f.client(t)
	sink := &recorder{client: client}
	options := workspace.GatewayOptions{Report: sink.report}
	for _, c := range change {
		c(&options)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Gateway: client.Gateway(sink, options), recorder: sink, client: client, ended: make(chan error, 1), stop: cancel}
	done := make(chan struct{})
	go func() { defer close(done); r.ended <- r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func only(t *testing.T, f *fake) *peer {
	t.Helper()
	synctest.Wait()
	open := f.peers()
	require.Len(t, open, 1)
	return open[0]
}

func seed(f *fake) (thread string) {
	f.do(func(w *world) {
		w.grants[wire.Target{Kind: wire.TargetInstance}] = wire.LevelManage
		thread = w.channel(w.space("s").ID, "c", wire.ChannelText).MainThreadID
	})
	return thread
}

func TestGatewayHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		r := run(t, f)
		p := only(t, f)
		began := time.Now()
		f.do(func(w *world) { w.post(thread, w.other, "hello") })
		<-time.After(2 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		require.GreaterOrEqual(t, len(p.beats), 4, "ES-6.3.5 every interval")
		require.Less(t, p.beatAt[0].Sub(began), 30*time.Second, "ES-6.3.5 the first after a random part")
		require.Equal(t, 30*time.Second, p.beatAt[2].Sub(p.beatAt[1]).Round(time.Second))
		require.Equal(t, f.head, p.beats[len(p.beats)-1].LastSeq)
		p.deaf = true
		p.mu.Unlock()
		<-time.After(90 * time.Second)
		synctest.Wait()
		require.NotSame(t, p, only(t, f), "ES-6.3.5 without an answer it closes itself and connects again")
		require.Equal(t, 1, r.count("ready"))
		require.Equal(t, 1, r.count("resumed"), "ES-6.3.7 within the window it resumes")
		require.Equal(t, workspace.Live, r.Phase())
	})
}

func TestGatewayPositions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		r := run(t, f)
		only(t, f)
		require.Equal(t, []string{"ready", "live"}, r.all(), "identify without a cursor is live at ready")
		f.hangUp()
		f.do(func(w *world) {
			for range 20 {
				w.post(thread, w.other, "missed")
			}
		})
		<-time.After(time.Minute)
		synctest.Wait()
		require.Len(t, r.seqs, 20, "ES-7.2 what was missed comes, each once")
		require.True(t, slices.IsSorted(r.seqs), "ES-10 in order")
		require.Equal(t, f.head, r.at.Seq)
		require.Greater(t, len(r.pages), 2, "ES-7.1 the position is stored after every page")

		p := only(t, f)
		f.do(func(w *world) {
			p.event(w.log[len(w.log)-1].Envelope) // again
		})
		synctest.Wait()
		require.Len(t, r.seqs, 20, "ES-9.2 duplicates are dropped")
		require.Equal(t, []string{"ES-10"}, r.violations(), "and out of order they are reported")
		p.say(wire.OpCursor, wire.Cursor{Seq: 1})
		synctest.Wait()
		require.Equal(t, f.head, r.at.Seq, "a cursor never goes back")
		require.Equal(t, []string{"ES-10", "ES-7.1"}, r.violations())
	})
}

func TestGatewayTellsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		seed(f)
		r := run(t, f)
		p := only(t, f)
		p.say("novelty", map[string]int{"n": 1})
		p.event(wire.Envelope{ID: workspace.NewID(), Type: workspace.TypeTypingStarted, Payload: raw(wire.TypingStarted{ThreadID: "t"})})
		f.do(func(w *world) {
			w.emit("something.new", wire.Scope{}, wire.Resource{Kind: "thing", ID: "x"}, map[string]int{"n": 1}, personal)
		})
		synctest.Wait()
		require.Contains(t, r.all(), "unknown novelty", "ES-6.1 ops nobody knows are ignored, and handed on")
		require.Contains(t, r.all(), "ephemeral typing.started")
		require.Equal(t, []int64{f.head}, r.seqs)
		require.Equal(t, 1, r.count("ready"), "the connection stays")

		require.NoError(t, p.socket.Write(p.ctx, 1, []byte(`{"op":"cursor","op":"cursor"}`)))
		<-time.After(time.Minute)
		require.Equal(t, 1, r.count("resumed"), "what is no frame ends the connection, and the client comes back")
	})
}

func TestGatewayResync(t *testing.T) {
	t.Parallel()
	for reason, spoil := range map[wire.ResyncReason]func(*fake){
		wire.ResyncEpoch:  func(f *fake) { f.epoch = workspace.NewID() },
		wire.ResyncOld:    func(f *fake) { f.oldest = f.head + 1 },
		wire.ResyncFuture: func(f *fake) { f.head, f.log = f.head-2, f.log[:len(f.log)-2] },
	} {
		t.Run("ES-7.3 "+string(reason), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				thread := seed(f)
				r := run(t, f)
				only(t, f)
				f.hangUp()
				f.do(func(w *world) {
					if reason == wire.ResyncOld {
						w.post(thread, w.other, "gone")
						w.post(thread, w.other, "gone too")
					}
					spoil(f)
				})
				<-time.After(time.Minute)
				synctest.Wait()
				require.Equal(t, 1, r.count("resync "+string(reason)))
				require.Empty(t, r.seqs)
				require.Equal(t, workspace.Position{Seq: f.head, Epoch: f.epoch}, r.at)
				f.do(func(w *world) { w.post(thread, w.other, "after") })
				synctest.Wait()
				require.Equal(t, []int64{f.head}, r.seqs, "the connection is live without another one")
			})
		})
	}
}

func TestGatewayCloses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   code.Close
		reason string
		within time.Duration // it is back, 0 when it never is by itself
		then   string
		ends   error
		report bool
	}{
		{code: code.CloseGoingAway, within: time.Second, then: "resumed"},
		{code: code.CloseUnknownError, within: time.Second, then: "resumed"},
		{code: code.CloseUnknownOp, within: time.Second, then: "resumed", report: true},
		{code: code.CloseDecode, within: time.Second, then: "resumed", report: true},
		{code: code.CloseNotIdentified, within: time.Second, then: "resumed", report: true},
		{code: code.CloseAuthentication, within: time.Second, then: "resumed"},
		{code: code.CloseAlreadyIdentified, within: time.Second, then: "resumed", report: true},
		{code: code.CloseSessionInvalid, within: time.Second, then: "ready"},
		{code: code.CloseRateLimited, reason: "30", within: 33 * time.Second, then: "resumed"},
		{code: code.CloseHeartbeat, within: time.Second, then: "resumed"},
		{code: code.CloseTokenExpired, within: time.Second, then: "resumed"},
		{code: code.CloseServerRestart, within: time.Second, then: "resumed"},
		{code: code.CloseSlowConsumer, within: time.Second, then: "resumed"},
		{code: 4999, within: time.Second, then: "resumed"},
		{code: code.CloseNormal, ends: &workspace.Closed{Code: code.CloseNormal}},
		{code: code.CloseProtocolVersion, ends: &workspace.Closed{Code: code.CloseProtocolVersion}},
		{code: code.CloseConsumerReplaced, ends: &workspace.Closed{Code: code.CloseConsumerReplaced}},
		{code: code.CloseDeviceReplaced, ends: &workspace.Closed{Code: code.CloseDeviceReplaced}},
		{code: code.CloseForbidden, ends: &workspace.Closed{Code: code.CloseForbidden}},
		{code: code.CloseRevoked, ends: workspace.ErrRevoked},
	} {
		t.Run(fmt.Sprintf("ES-6.4 %d", c.code), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				seed(f)
				r := run(t, f)
				p := only(t, f)
				tokens := len(f.keys.access)
				began := time.Now()
				p.close(c.code, c.reason)
				if c.ends != nil {
					err := <-r.ended
					if closed, is := errors.AsType[*workspace.Closed](c.ends); is {
						got, ok := errors.AsType[*workspace.Closed](err)
						require.True(t, ok, err)
						require.Equal(t, closed.Code, got.Code)
					} else {
						require.ErrorIs(t, err, c.ends)
					}
					require.Less(t, time.Since(began), time.Second)
					if c.code == code.CloseRevoked {
						kept, err := r.client.SignedIn(t.Context())
						require.NoError(t, err)
						require.Nil(t, kept, "it is signed out")
					}
					return
				}
				before := r.count(c.then)
				<-time.After(c.within)
				synctest.Wait()
				require.Equal(t, before+1, r.count(c.then), r.all())
				require.Equal(t, c.report, len(r.reports) > 0, r.reports)
				renews := c.code == code.CloseAuthentication || c.code == code.CloseTokenExpired
				require.Equal(t, renews, len(f.keys.access) > tokens, "a new token")
			})
		})
	}
}

func TestGatewayWaitsForApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		seed(f)
		r := run(t, f)
		p := only(t, f)
		f.keys.Lock()
		f.keys.pending = true
		f.keys.Unlock()
		p.close(code.CloseDevicePending, "")
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, workspace.Approval, r.Phase())
		require.Empty(t, f.peers(), "ES-6.4 4016 no connection until the device is active")
		f.keys.Lock()
		f.keys.pending = false
		f.keys.Unlock()
		<-time.After(2 * time.Minute)
		only(t, f)
	})
}

func TestGatewayBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		seed(f)
		var tried []time.Time
		f.do(func(*world) {
			f.greet = func(p *peer) bool {
				f.do(func(*world) { tried = append(tried, time.Now()) })
				p.close(code.CloseUnknownError, "")
				return true
			}
		})
		r := run(t, f)
		<-time.After(2 * time.Hour)
		synctest.Wait()
		var waits []time.Duration
		for i, at := range tried[1:] {
			wait := at.Sub(tried[i])
			ceiling := time.Minute
			if i < 6 {
				ceiling = time.Second << i
			}
			require.LessOrEqual(t, wait, ceiling, "ES-6.5 full jitter, attempt %d", i)
			waits = append(waits, wait)
		}
		late := waits[6:]
		require.Greater(t, len(late), 100)
		slices.Sort(late)
		require.InDelta(t, 30, late[len(late)/2].Seconds(), 12, "uniformly up to the cap")

		n := len(tried)
		r.Wake()
		synctest.Wait()
		require.Len(t, tried, n+1, "ES-6.5 a return to the foreground tries at once")
	})
}

func TestGatewayRenewsItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		seed(f)
		r := run(t, f)
		p := only(t, f)
		p.say(wire.OpReauthRequired, wire.ReauthRequired{ExpiresAt: time.Now().Add(time.Minute), DPoPNonce: p.nonce})
		synctest.Wait()
		require.Len(t, p.frames(wire.OpReauth), 1, "ES-6.3.6")
		require.Zero(t, r.count("failed reauth invalid_dpop_proof"))
		p.say(wire.OpError, wire.OpFailed{Op: wire.OpReauth, Code: string(code.InvalidToken)})
		synctest.Wait()
		require.Len(t, p.frames(wire.OpReauth), 2, "a refused one is tried again")
		require.Equal(t, 1, r.count("failed reauth invalid_token"))
		require.Equal(t, 1, r.count("ready"))
	})
}

func TestGatewaySays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		r := run(t, f)
		p := only(t, f)
		r.Focus([]string{thread}, nil, true)
		for range 20 {
			r.Typing(thread)
			<-time.After(time.Second)
		}
		synctest.Wait()
		require.Len(t, p.frames(wire.OpTypingStart), 4, "ES-12.1 at most every five seconds")
		r.StopTyping(thread)
		r.Typing(thread)
		synctest.Wait()
		require.Len(t, p.frames(wire.OpTypingStart), 5, "a stop resets it")
		require.Len(t, p.frames(wire.OpFocus), 1)
		f.hangUp()
		r.Typing(thread)
		<-time.After(time.Minute)
		again := only(t, f)
		require.Len(t, again.frames(wire.OpFocus), 1, "the focus is said on every connection")
		require.JSONEq(t, fmt.Sprintf(`{"thread_ids":[%q],"idle":true}`, thread), string(again.frames(wire.OpFocus)[0].D))
	})
}

func TestGatewayEndsWithItsSink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		thread := seed(f)
		r := run(t, f)
		only(t, f)
		r.mu.Lock()
		r.fail = errors.New("disk full")
		r.mu.Unlock()
		f.do(func(w *world) { w.post(thread, w.other, "hello") })
		require.ErrorContains(t, <-r.ended, "disk full")
	})
}

func TestGatewayWithoutAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		seed(f)
		r := run(t, f)
		only(t, f)
		f.listener.close()
		f.hangUp()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Contains(t, []workspace.Phase{workspace.Waiting, workspace.Connecting}, r.Phase())
		r.stop()
		require.NoError(t, <-r.ended)
	})
}
