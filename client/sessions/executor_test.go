package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func execute(t *testing.T, client *sessions.Client, o sessions.ExecutorOptions) *sessions.Executor {
	executor, err := client.Execute(t.Context(), sessionID, o)
	require.NoError(t, err)
	return executor
}

func emit(t *testing.T, executor *sessions.Executor, from, to int) {
	for n := from; n <= to; n++ {
		require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: fmt.Sprint("k", n)}))
	}
}

func numbered(from, to int) []string {
	var kinds []string
	for n := from; n <= to; n++ {
		kinds = append(kinds, fmt.Sprint("k", n))
	}
	return kinds
}

// on answers a fault for one kind of request.
func on(request string, fault func(w http.ResponseWriter, r *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasPrefix(r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v1/sessions/"+sessionID), request) && fault(w, r)
	}
}

func broken(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

func TestEmit(t *testing.T) {
	t.Parallel()
	t.Run("SS-CON-3 the lease comes first, events keep their order and have ids, a clean stop flushes and releases", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		executor := execute(t, f.over(t), sessions.ExecutorOptions{})
		require.Equal(t, mine, f.leaseHolder())
		emit(t, executor, 1, 150)
		require.NoError(t, executor.Flush(t.Context()))
		require.Equal(t, numbered(1, 150), f.kinds())
		emit(t, executor, 151, 155)
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, numbered(1, 155), f.kinds())
		require.Empty(t, f.leaseHolder())
		require.NoError(t, executor.Err())
		require.Nil(t, executor.Lost())
		require.ErrorIs(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "late"}), sessions.ErrStopped)
		require.ErrorIs(t, executor.Context().Err(), context.Canceled)
		ids := map[string]bool{}
		for _, batch := range f.batches {
			require.LessOrEqual(t, len(batch), 20)
			for _, event := range batch {
				ids[*event.ClientEventID] = true
				require.NotNil(t, event.TS)
			}
		}
		require.Len(t, ids, 155)
		require.NoError(t, executor.Stop(t.Context()), "again")
	})
	t.Run("a batch goes after 200 ms or with 20 events", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			emit(t, executor, 1, 19)
			<-time.After(199 * time.Millisecond)
			synctest.Wait()
			require.Empty(t, f.kinds())
			<-time.After(time.Millisecond)
			synctest.Wait()
			require.Len(t, f.kinds(), 19)
			emit(t, executor, 20, 39)
			synctest.Wait()
			require.Len(t, f.kinds(), 39, "full: at once")
			require.NoError(t, executor.Stop(t.Context()))
		})
	})
	t.Run("SS-CON-3 a lost answer is asked for again with the same ids, and accepted may be less", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			losses := 0
			f.after = func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/events") {
					if losses++; losses <= 3 {
						panic(http.ErrAbortHandler)
					}
				}
			}
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			emit(t, executor, 1, 3)
			require.NoError(t, executor.Flush(t.Context()))
			require.Equal(t, numbered(1, 3), f.kinds())
			require.Len(t, f.batches, 4)
			for _, batch := range f.batches {
				require.Equal(t, f.batches[0], batch)
			}
			require.NoError(t, executor.Stop(t.Context()))
		})
	})
	t.Run("5xx, 429 and a refused connection are tried again while the lease is held", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			tries := 0
			f.before = on("POST /events", func(w http.ResponseWriter, _ *http.Request) bool {
				switch tries++; tries {
				case 1:
					refuse(w, 500, "internal_error", "no")
				case 2:
					w.Header().Set("Retry-After", "7")
					refuse(w, 429, "rate_limit_exceeded", "no")
				case 3:
					panic(http.ErrAbortHandler)
				}
				return tries <= 3
			})
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			start := time.Now()
			emit(t, executor, 1, 1)
			require.NoError(t, executor.Flush(t.Context()))
			require.GreaterOrEqual(t, time.Since(start), 7*time.Second)
			require.Equal(t, numbered(1, 1), f.kinds())
			require.NoError(t, executor.Stop(t.Context()))
		})
	})
	t.Run("a batch that is too large for the server is cut", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.before = on("POST /events", func(w http.ResponseWriter, r *http.Request) bool {
			if r.ContentLength > 400 {
				refuse(w, 413, "payload_too_large", "no")
			}
			return r.ContentLength > 400
		})
		executor := execute(t, f.over(t), sessions.ExecutorOptions{})
		emit(t, executor, 1, 20)
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, numbered(1, 20), f.kinds())
	})
	t.Run("a batch stays under 4 MiB, a single event may be larger", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		executor := execute(t, f.over(t), sessions.ExecutorOptions{})
		for _, size := range []int{3 << 20, 3 << 20, 6 << 20, 10} {
			payload := json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`)
			require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "big", Payload: payload}))
		}
		require.NoError(t, executor.Stop(t.Context()))
		require.Len(t, f.batches, 4)
		require.Len(t, f.kinds(), 4)
	})
	t.Run("Emit blocks while the queue is full, until there is room or its context ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.before = on("POST /events", broken)
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{QueueEvents: 5})
			emit(t, executor, 1, 5)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, executor.Emit(ctx, wire.IncomingEvent{Kind: "k6"}), context.DeadlineExceeded)
			require.ErrorIs(t, executor.Flush(ctx), context.DeadlineExceeded)
			room := make(chan error, 1)
			go func() { room <- executor.Emit(t.Context(), wire.IncomingEvent{Kind: "k6"}) }()
			synctest.Wait()
			f.mu.Lock()
			f.before = nil
			f.mu.Unlock()
			require.NoError(t, <-room)
			require.NoError(t, executor.Stop(t.Context()))
			require.Equal(t, numbered(1, 6), f.kinds())
		})
	})
	t.Run("SS-OBJ-2 what the server would refuse is refused before it is queued", func(t *testing.T) {
		t.Parallel()
		executor := execute(t, newFake().over(t), sessions.ExecutorOptions{})
		long := strings.Repeat("ă", 129)
		fits := strings.Repeat("ă", 128)
		for _, event := range []wire.IncomingEvent{
			{}, {Kind: strings.Repeat("ă", 65)}, {Kind: "k", TurnID: &long}, {Kind: "k", ClientEventID: &long},
			{Kind: "k", Payload: json.RawMessage(`[]`)}, {Kind: "k", Payload: json.RawMessage(`{"a":}`)},
			{Kind: "k", Payload: json.RawMessage("{\"a\":\"\xff\"}")},
			{Kind: "k", Payload: json.RawMessage(`{"x":"` + strings.Repeat("x", 12<<20) + `"}`)},
		} {
			require.Error(t, executor.Emit(t.Context(), event))
		}
		require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: strings.Repeat("ă", 64), TurnID: &fits, ClientEventID: &fits}))
		require.NoError(t, executor.Stop(t.Context()))
	})
	t.Run("a refusal that cannot pass ends it", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.before = on("POST /events", func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, 404, "not_found", "gone")
			return true
		})
		executor := execute(t, f.over(t), sessions.ExecutorOptions{})
		emit(t, executor, 1, 1)
		<-executor.Done()
		require.True(t, sessions.IsCode(executor.Err(), code.NotFound))
		require.ErrorIs(t, executor.Err(), sessions.ErrUnsent)
		require.True(t, sessions.IsCode(executor.Emit(t.Context(), wire.IncomingEvent{Kind: "k"}), code.NotFound))
	})
}

func TestLease(t *testing.T) {
	t.Parallel()
	t.Run("SS-LEASE-1 a live lease of another device is refused, force takes it", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.take(other)
		client := f.over(t)
		_, err := client.Execute(t.Context(), sessionID, sessions.ExecutorOptions{})
		require.True(t, sessions.IsCode(err, code.LeaseHeld))
		require.Equal(t, other, sessions.AsAPIError(err).HolderDeviceID())
		executor := execute(t, client, sessions.ExecutorOptions{Force: true})
		require.Equal(t, mine, executor.Lease().DeviceID)
		require.NoError(t, executor.Stop(t.Context()))
	})
	t.Run("SS-CON-3 heartbeats keep it, at most 10 s apart", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			<-time.After(10 * time.Minute)
			require.Nil(t, executor.Lost())
			require.Equal(t, mine, f.leaseHolder())
			require.GreaterOrEqual(t, len(f.requested("PUT")), 60)
			require.NoError(t, executor.Stop(t.Context()))
		})
	})
	t.Run("SS-CON-3 a heartbeat that says 409 stops it at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			f.take(other)
			start := time.Now()
			<-executor.Context().Done()
			require.LessOrEqual(t, time.Since(start), 10*time.Second)
			require.Equal(t, sessions.LossTaken, executor.Lost().Reason)
			require.Equal(t, other, executor.Lost().HolderDeviceID)
			require.ErrorIs(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "k"}), sessions.ErrLeaseLost)
			<-executor.Done()
			require.ErrorIs(t, executor.Err(), sessions.ErrLeaseLost)
			require.Empty(t, f.requested("DELETE"), "it is another device's now")
		})
	})
	t.Run("SS-CON-3 an executor that follows the stream learns of a takeover without waiting for its heartbeat", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: func(context.Context, wire.Control) error { return nil }})
		require.Eventually(t, func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.streams) == 1
		}, 5*time.Second, time.Millisecond)
		f.take(other)
		select {
		case <-executor.Done():
		case <-time.After(5 * time.Second):
			t.Fatal("still executing")
		}
		require.Equal(t, sessions.LossTaken, executor.Lost().Reason)
	})
	t.Run("SS-CON-3 an append that says 409 stops it at once", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		executor := execute(t, f.over(t), sessions.ExecutorOptions{})
		f.take(other)
		emit(t, executor, 1, 1)
		<-executor.Done()
		require.Equal(t, other, executor.Lost().HolderDeviceID)
		require.ErrorIs(t, executor.Err(), sessions.ErrUnsent)
		require.Empty(t, f.kinds())
	})
	t.Run("SS-LEASE-4 an expired lease has no holder", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			f.mu.Lock()
			f.expires = time.Now()
			f.mu.Unlock()
			<-executor.Done()
			require.Equal(t, sessions.LossExpired, executor.Lost().Reason)
			require.Empty(t, executor.Lost().HolderDeviceID)
		})
	})
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"connections break":    broken,
		"answers never come":   func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		"the server is broken": func(w http.ResponseWriter, _ *http.Request) bool { refuse(w, 503, "unavailable", ""); return true },
	} {
		t.Run("SS-CON-3 when heartbeats cannot get through it stops before the promised term ends: "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.before = on("PUT /lease", fault)
				start := time.Now()
				executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
				f.mu.Lock()
				end := f.expires
				f.mu.Unlock()
				<-executor.Context().Done()
				require.True(t, time.Now().Before(end))
				require.Greater(t, time.Since(start), 25*time.Second, "not too early either")
				<-executor.Done()
				require.Equal(t, sessions.LossUnreachable, executor.Lost().Reason)
				require.Error(t, executor.Lost().Err)
				require.GreaterOrEqual(t, len(f.requested("PUT")), 4)
			})
		})
	}
	t.Run("SS-CON-3 the term counts from before the claim was sent", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.before = on("PUT /lease", broken)
			f.after = func(r *http.Request) {
				if r.Method == http.MethodPost {
					<-time.After(12 * time.Second) // the answer is slow
				}
			}
			start := time.Now()
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			<-executor.Done()
			require.Less(t, time.Since(start), sessions.LeaseTerm)
		})
	})
	t.Run("a claim whose answer was lost is asked for again", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		var once sync.Once
		f.after = func(*http.Request) { once.Do(func() { panic(http.ErrAbortHandler) }) }
		executor := execute(t, f.over(t), sessions.ExecutorOptions{})
		require.NoError(t, executor.Stop(t.Context()))
		require.Len(t, f.requested("POST"), 2)
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("the end of the context is a clean stop", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		ctx, cancel := context.WithCancel(t.Context())
		executor, err := f.over(t).Execute(ctx, sessionID, sessions.ExecutorOptions{BatchWait: time.Hour})
		require.NoError(t, err)
		emit(t, executor, 1, 3)
		cancel()
		<-executor.Done()
		require.ErrorIs(t, executor.Err(), context.Canceled)
		require.Equal(t, numbered(1, 3), f.kinds())
		require.Empty(t, f.leaseHolder())
	})
	t.Run("what cannot be stored in time is told", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.before = on("POST /events", broken)
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{})
			emit(t, executor, 1, 3)
			ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
			defer cancel()
			start := time.Now()
			err := executor.Stop(ctx)
			require.ErrorIs(t, err, sessions.ErrUnsent)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 9*time.Second, time.Since(start))
			require.Empty(t, f.leaseHolder(), "released all the same")
		})
	})
	t.Run("without Stop the grace bounds it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.before = on("POST /events", broken)
			ctx, cancel := context.WithCancel(t.Context())
			executor, err := f.inMemory(t).Execute(ctx, sessionID, sessions.ExecutorOptions{StopGrace: 3 * time.Second})
			require.NoError(t, err)
			emit(t, executor, 1, 1)
			start := time.Now()
			cancel()
			<-executor.Done()
			require.Equal(t, 3*time.Second, time.Since(start))
			require.ErrorIs(t, executor.Err(), sessions.ErrUnsent)
		})
	})
}

// collector is an OnControl that writes down what it was given.
type collector struct {
	mu  sync.Mutex
	ids []string
}

func (c *collector) take(_ context.Context, control wire.Control) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, control.ID)
	return nil
}

func (c *collector) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.ids...)
}

func TestControls(t *testing.T) {
	t.Parallel()
	t.Run("SS-CON-3 pending controls are drained at the start, in order, each marked, foreign ones skipped", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		var want []string
		foreign := 0
		for n := range 1203 {
			control := wire.Control{ID: fmt.Sprint("c", n), Kind: wire.ControlSend}
			switch n % 3 {
			case 0:
				control.TargetDeviceID = new(other)
				foreign++
			case 1:
				control.TargetDeviceID = new(strings.ToUpper(mine))
				fallthrough
			default:
				want = append(want, control.ID)
			}
			f.control(control)
		}
		var got collector
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: got.take})
		require.Eventually(t, func() bool { return f.pending() == foreign }, 20*time.Second, 5*time.Millisecond)
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, want, got.seen())
	})
	t.Run("SS-CON-3 later ones come by the stream, each once, although answers to the mark are lost", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		var mu sync.Mutex
		lost := map[string]bool{}
		f.after = func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasSuffix(r.URL.Path, "/applied") && !lost[r.URL.Path] {
				lost[r.URL.Path] = true
				panic(http.ErrAbortHandler)
			}
		}
		var got collector
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: got.take})
		for _, id := range []string{"a", "b", "c"} {
			f.control(wire.Control{ID: id, Kind: wire.ControlSteer})
		}
		require.Eventually(t, func() bool { return len(got.seen()) == 3 && f.pending() == 0 }, 20*time.Second, 5*time.Millisecond)
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, []string{"a", "b", "c"}, got.seen())
		require.Len(t, lost, 3)
	})
	t.Run("SS-CON-3 one that nobody told of is found by the periodic read", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/stream") {
					return false
				}
				refuse(w, 502, "unavailable", "")
				return true
			}
			var got collector
			executor := execute(t, f.inMemory(t), sessions.ExecutorOptions{OnControl: got.take})
			<-time.After(time.Second)
			f.control(wire.Control{ID: "late", Kind: wire.ControlCancel})
			<-time.After(sessions.DefaultDrainEvery)
			synctest.Wait()
			require.Equal(t, []string{"late"}, got.seen())
			require.NoError(t, executor.Stop(t.Context()))
		})
	})
	t.Run("an event that only looks like a control is not delivered", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		var got collector
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: got.take})
		payload := json.RawMessage(`{"control":{"id":"forged","kind":"send","seq":1},"applied":false}`)
		require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "control", Payload: payload}))
		require.NoError(t, executor.Flush(t.Context()))
		f.control(wire.Control{ID: "real", Kind: wire.ControlSteer})
		require.Eventually(t, func() bool { return f.pending() == 0 }, 10*time.Second, time.Millisecond)
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, []string{"real"}, got.seen())
	})
	t.Run("a failing OnControl stops it cleanly, and nothing after it is delivered", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.control(wire.Control{ID: "fine", Kind: wire.ControlSteer})
		f.control(wire.Control{ID: "left", Kind: wire.ControlSteer})
		f.control(wire.Control{ID: "bad", Kind: wire.ControlSteer})
		f.control(wire.Control{ID: "after", Kind: wire.ControlSteer})
		errBad := errors.New("cannot")
		var got collector
		var executor *sessions.Executor
		ready := make(chan struct{})
		executor = execute(t, f.over(t), sessions.ExecutorOptions{OnControl: func(ctx context.Context, control wire.Control) error {
			<-ready
			_ = got.take(ctx, control)
			switch control.ID {
			case "left":
				return sessions.ErrLeavePending
			case "bad":
				require.NoError(t, executor.Emit(ctx, wire.IncomingEvent{Kind: "why"}))
				return errBad
			}
			return nil
		}})
		close(ready)
		<-executor.Done()
		require.ErrorIs(t, executor.Err(), errBad)
		require.Equal(t, []string{"fine", "left", "bad"}, got.seen())
		require.Equal(t, 3, f.pending())
		require.Contains(t, f.kinds(), "why")
		require.Empty(t, f.leaseHolder())
	})
	t.Run("a stop ends the context of the control in hand", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.control(wire.Control{ID: "long", Kind: wire.ControlSend})
		started := make(chan struct{})
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: func(ctx context.Context, _ wire.Control) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}})
		<-started
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, 1, f.pending(), "the next executor gets it")
	})
	t.Run("SS-STR-2 a log that was reset ends it", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.store(wire.Event{Kind: "old"})
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/stream") {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, sse("reset", `{"v":1,"last_seq":0}`))
			return true
		}
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: func(context.Context, wire.Control) error { return nil }})
		<-executor.Done()
		require.ErrorIs(t, executor.Err(), sessions.ErrLogReset)
	})
}

func TestWoken(t *testing.T) {
	t.Parallel()
	t.Run("SS-CON-3 woken by a dispatch, it reads target=me before it claims", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.control(wire.Control{ID: "other", Kind: wire.ControlSend, TargetDeviceID: new(other)})
		f.control(wire.Control{ID: "work", Kind: wire.ControlSend, TargetDeviceID: new(mine)})
		f.control(wire.Control{ID: "look", Kind: wire.ControlSend, TargetDeviceID: new(mine), Mode: wire.ModeOpen})
		var got collector
		executor := execute(t, f.over(t), sessions.ExecutorOptions{Woken: true, OnControl: got.take})
		require.Eventually(t, func() bool { return f.pending() == 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, executor.Stop(t.Context()))
		require.Equal(t, []string{"look", "work"}, got.seen(), "a handoff needs no lease")
		require.Equal(t, "GET /v1/sessions/"+sessionID+"/controls?target=me", f.requested("")[0])
		require.Equal(t, "POST /v1/sessions/"+sessionID+"/control/look/applied", f.requested("")[1])
		require.Equal(t, "POST /v1/sessions/"+sessionID+"/lease", f.requested("")[2])
	})
	t.Run("SS-DSP-4 nothing to execute claims nothing", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		_, err := f.over(t).Execute(t.Context(), sessionID, sessions.ExecutorOptions{Woken: true})
		require.ErrorIs(t, err, sessions.ErrNothingDispatched)
		require.Len(t, f.requested(""), 1)
	})
}

func TestFollow(t *testing.T) {
	t.Parallel()
	ignore := func(context.Context, wire.Control) error { return nil }
	onStream := func(answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return on("GET /stream", func(w http.ResponseWriter, _ *http.Request) bool { answer(w); return true })
	}
	t.Run("SS-ROLE-2 an executor that may not see the session any more ends", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.before = onStream(func(w http.ResponseWriter) { refuse(w, 403, "not_a_member", "no") })
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: ignore})
		<-executor.Done()
		require.True(t, sessions.IsCode(executor.Err(), code.NotAMember))
	})
	t.Run("SS-ROLE-2 an executor whose session was deleted ends", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.before = onStream(func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, sse("closed", `{"v":1,"code":4404}`))
		})
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: ignore})
		<-executor.Done()
		var closed *sessions.ClosedError
		require.ErrorAs(t, executor.Err(), &closed)
		require.Equal(t, code.CloseNotFound, closed.Code)
	})
	t.Run("SS-CON-3 a lost lease ends the context of the control in hand, which is not marked", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.control(wire.Control{ID: "long", Kind: wire.ControlSend})
		started := make(chan struct{})
		executor := execute(t, f.over(t), sessions.ExecutorOptions{OnControl: func(ctx context.Context, _ wire.Control) error {
			close(started)
			<-ctx.Done()
			return nil
		}})
		<-started
		f.take(other)
		require.NoError(t, executor.Emit(t.Context(), wire.IncomingEvent{Kind: "k"})) // meets the refusal
		<-executor.Done()
		require.Equal(t, sessions.LossTaken, executor.Lost().Reason)
		require.Equal(t, 1, f.pending())
		require.Empty(t, f.requested("POST /v1/sessions/"+sessionID+"/control/"))
	})
	t.Run("a handoff that fails claims nothing", func(t *testing.T) {
		t.Parallel()
		f := newFake()
		f.control(wire.Control{ID: "look", Kind: wire.ControlSend, TargetDeviceID: new(mine), Mode: wire.ModeOpen})
		errBad := errors.New("cannot")
		_, err := f.over(t).Execute(t.Context(), sessionID, sessions.ExecutorOptions{
			Woken: true, OnControl: func(context.Context, wire.Control) error { return errBad },
		})
		require.ErrorIs(t, err, errBad)
		require.Equal(t, 1, f.pending())
		require.Empty(t, f.requested("POST"))
	})
}
