package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

var config = Config{
	IdentifyTimeout: 10 * time.Second, HeartbeatInterval: 30 * time.Second, HeartbeatMisses: 2, ReauthLeadTime: time.Minute, MaxFocused: 3,
	TypingMinInterval: 5 * time.Second,
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func id(n int) string { return fmt.Sprintf("01890000-0000-7000-8000-%012d", n) }

func open() State {
	return State{Phase: Open, Since: start, Beat: start, Person: true, Expires: start.Add(10 * time.Minute)}
}

func op(name string, body any) Input { return Received{Op{Name: name, Body: body}} }

func TestStep(t *testing.T) {
	t.Parallel()
	agent := open()
	agent.Person = false
	typed := open()
	typed.Typed = start
	cases := []struct {
		name  string
		state State
		after time.Duration
		in    Input
		want  []Effect
		check func(t *testing.T, s State)
	}{
		{name: "ES-6.3.3 identify", state: State{Since: start}, in: op("identify", &wire.Identify{ProtocolVersion: 1}),
			want:  []Effect{Enter{Identify: &wire.Identify{ProtocolVersion: 1}}},
			check: func(t *testing.T, s State) { require.Equal(t, Entering, s.Phase) }},
		{name: "ES-6.3.7 resume", state: State{Since: start}, in: op("resume", &wire.Resume{}), want: []Effect{Enter{Resume: &wire.Resume{}}}},
		{name: "ES-6.3.3 nobody identifies yet", state: State{Since: start}, after: 10*time.Second - 1, in: Ticked{}},
		{name: "ES-6.4 4003 nobody identifies in time", state: State{Since: start}, after: 10 * time.Second, in: Ticked{},
			want: []Effect{Close{code.CloseNotIdentified, "Nobody identified in time."}}},
		{name: "ES-6.4 4003 an op before identify", state: State{Since: start}, in: op("heartbeat", &wire.Heartbeat{}),
			want: []Effect{Close{code.CloseNotIdentified, "Identify first."}}},
		{name: "ES-6.4 4003 an op of agents before identify", state: State{Since: start}, in: op("ack", nil),
			want: []Effect{Close{code.CloseNotIdentified, "Identify first."}}},
		{name: "ES-6.4 4005 identify twice", state: open(), in: op("identify", &wire.Identify{ProtocolVersion: 1}),
			want: []Effect{Close{code.CloseAlreadyIdentified, "This connection is identified already."}}},
		{name: "ES-6.4 4005 resume after identify", state: open(), in: op("resume", &wire.Resume{}),
			want: []Effect{Close{code.CloseAlreadyIdentified, "This connection is identified already."}}},
		{name: "ES-6.4 4007 a version of the future", state: State{Since: start}, in: op("identify", &wire.Identify{ProtocolVersion: 2}),
			want: []Effect{Close{code.CloseProtocolVersion, "The gateway speaks version 1."}}},
		{name: "ES-6.4 4007 no version", state: State{Since: start}, in: op("identify", &wire.Identify{}),
			want: []Effect{Close{code.CloseProtocolVersion, "The gateway speaks version 1."}}},
		{name: "ES-6.4 4002 a negative cursor", state: State{Since: start}, in: op("resume", &wire.Resume{Cursor: -1}),
			want: []Effect{Close{code.CloseDecode, "A cursor is not negative."}}},
		{name: "ES-6.4 4002 a frame nobody can read", state: open(), in: Rejected{Rejection{code.CloseDecode, "x"}},
			want: []Effect{Close{code.CloseDecode, "x"}}},
		{name: "ES-6.3.5 a heartbeat", state: open(), after: time.Minute - 1, in: op("heartbeat", &wire.Heartbeat{Ref: "r"}),
			want:  []Effect{Acknowledge{"r"}},
			check: func(t *testing.T, s State) { require.Equal(t, start.Add(time.Minute-1), s.Beat) }},
		{name: "ES-6.3.5 one heartbeat is missing", state: open(), after: time.Minute - 1, in: Ticked{}},
		{name: "ES-6.4 4009 two heartbeats are missing", state: open(), after: time.Minute, in: Ticked{},
			want: []Effect{Close{code.CloseHeartbeat, "No heartbeat came."}}},
		{name: "ES-6.3.6 reauth_required", state: State{Phase: Open, Beat: start, Person: true, Expires: start.Add(61 * time.Second)}, after: time.Second, in: Ticked{},
			want:  []Effect{AskReauth{start.Add(61 * time.Second)}},
			check: func(t *testing.T, s State) { require.True(t, s.Asked) }},
		{name: "ES-6.3.6 asked once", state: State{Phase: Open, Beat: start, Person: true, Asked: true, Expires: start.Add(61 * time.Second)}, after: time.Second, in: Ticked{}},
		{name: "ES-6.3.6 agents are not asked", state: State{Phase: Open, Beat: start, Expires: start.Add(61 * time.Second)}, after: time.Second, in: Ticked{}},
		{name: "ES-6.4 4011 the token expires", state: State{Phase: Open, Beat: start, Asked: true, Person: true, Expires: start.Add(time.Second)}, after: time.Second, in: Ticked{},
			want: []Effect{Close{code.CloseTokenExpired, "The token has expired."}}},
		{name: "ES-6.3.6 a token without an end", state: State{Phase: Open, Beat: start, Person: true}, after: time.Second, in: Ticked{}},
		{name: "ES-6.3.6 reauth", state: open(), in: op("reauth", &wire.Reauth{AccessToken: "t"}), want: []Effect{Renew{wire.Reauth{AccessToken: "t"}}}},
		{name: "ES-6.3.6 a renewed token is asked for again", state: State{Phase: Open, Beat: start, Person: true, Asked: true, Expires: start.Add(time.Second)},
			in: Renewed{start.Add(30 * time.Second)}, want: []Effect{AskReauth{start.Add(30 * time.Second)}}},
		{name: "ES-6.3.6 agents do not renew", state: agent, in: op("reauth", &wire.Reauth{}),
			want: []Effect{Refuse{wire.OpFailed{Op: "reauth", Code: "not_available_for_kind", Detail: "API tokens are not renewed."}}}},
		{name: "ES-6.2 an op of agents leaves the connection", state: open(), in: Received{Op{Name: "ack", Ref: "r"}},
			want: []Effect{Refuse{wire.OpFailed{Op: "ack", Code: "unknown_op", Detail: "This op is not served.", Ref: "r"}}}},
		{name: "ES-6.2 focus: an id in both lists counts as in thread_ids, and once", state: open(),
			in:   op("focus", &wire.Focus{ThreadIDs: []string{id(1), id(2), id(1)}, BackgroundThreadIDs: []string{id(2), id(3)}, Idle: true}),
			want: []Effect{SetFocus{wire.Focus{ThreadIDs: []string{id(1), id(2)}, BackgroundThreadIDs: []string{id(3)}, Idle: true}}}},
		{name: "ES-11.3.2 focus on too many", state: open(),
			in:   op("focus", &wire.Focus{ThreadIDs: []string{id(1), id(2)}, BackgroundThreadIDs: []string{id(3), id(4)}}),
			want: []Effect{Refuse{wire.OpFailed{Op: "focus", Code: "validation_failed", Detail: "At most 3 threads are in focus."}}}},
		{name: "ES-11.3.2 focus on what is no id", state: open(), in: op("focus", &wire.Focus{ThreadIDs: []string{"x"}}),
			want: []Effect{Refuse{wire.OpFailed{Op: "focus", Code: "validation_failed", Detail: "A thread id is no UUID."}}}},
		{name: "ES-12.1 typing.start", state: open(), in: op("typing.start", &wire.Typing{ThreadID: id(1)}), want: []Effect{Type{ThreadID: id(1)}},
			check: func(t *testing.T, s State) { require.Equal(t, start, s.Typed) }},
		{name: "ES-12.1 too often", state: typed, after: 3500 * time.Millisecond, in: op("typing.start", &wire.Typing{ThreadID: id(2)}),
			want: []Effect{Refuse{wire.OpFailed{Op: "typing.start", Code: "rate_limited", Detail: "Typing was said a moment ago.", RetryAfter: 2}}}},
		{name: "ES-12.1 typing.start again in time", state: typed, after: 5 * time.Second, in: op("typing.start", &wire.Typing{ThreadID: id(1)}),
			want: []Effect{Type{ThreadID: id(1)}}},
		{name: "ES-12.1 typing.stop takes the throttle away", state: typed, in: op("typing.stop", &wire.Typing{ThreadID: id(1)}),
			check: func(t *testing.T, s State) { require.Zero(t, s.Typed) }},
		{name: "ES-12.1 typing that was refused does not count", state: typed, in: TypingRefused{},
			check: func(t *testing.T, s State) { require.Zero(t, s.Typed) }},
		{name: "ES-12.1 only people type", state: agent, in: op("typing.start", &wire.Typing{ThreadID: id(1)}),
			want: []Effect{Refuse{wire.OpFailed{Op: "typing.start", Code: "not_available_for_kind", Detail: "Only people type."}}}},
		{name: "ES-12.1 typing where there is no thread", state: open(), in: op("typing.start", &wire.Typing{}),
			want: []Effect{Refuse{wire.OpFailed{Op: "typing.start", Code: "validation_failed", Detail: "The thread id is no UUID."}}}},
		{name: "nothing happens after the end", state: State{Phase: Ended}, in: op("identify", &wire.Identify{ProtocolVersion: 1})},
		{name: "an end from outside", state: open(), in: Closed{}, check: func(t *testing.T, s State) { require.Equal(t, Ended, s.Phase) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			after, got := Step(config, c.state, start.Add(c.after), c.in)
			require.Equal(t, c.want, got)
			if c.check != nil {
				c.check(t, after)
			}
			for _, effect := range got {
				if _, closes := effect.(Close); closes {
					require.Equal(t, Ended, after.Phase)
				}
			}
		})
	}
}

// Ops that need the database are limited together, so that none of them is a way around the throttle of another.
func TestOpsAreLimited(t *testing.T) {
	t.Parallel()
	limited := config
	limited.OpBurst, limited.OpInterval = 4, time.Second
	ops := []Input{
		op("typing.start", &wire.Typing{ThreadID: id(1)}), op("typing.stop", &wire.Typing{ThreadID: id(1)}),
		op("focus", &wire.Focus{ThreadIDs: []string{id(1)}}), op("reauth", &wire.Reauth{}),
	}
	run := func(c Config, s State, now time.Time) (_ State, taken, refused int) {
		for range 5 {
			for _, in := range ops {
				var effects []Effect
				s, effects = Step(c, s, now, in)
				for _, effect := range effects {
					if failed, is := effect.(Refuse); is {
						require.Equal(t, "rate_limited", failed.Failed.Code)
						require.Equal(t, int64(1), failed.Failed.RetryAfter)
						refused++
					} else {
						taken++
					}
				}
			}
		}
		return s, taken, refused
	}
	t.Run("ES-12.1 stops do not take the throttle away", func(t *testing.T) {
		t.Parallel()
		s, taken, refused := run(limited, open(), start)
		require.Equal(t, []int{4, 11}, []int{taken, refused})
		s, effects := Step(limited, s, start, op("heartbeat", &wire.Heartbeat{}))
		require.Equal(t, []Effect{Acknowledge{}}, effects, "a heartbeat is never refused")
		_, taken, _ = run(limited, s, start.Add(2*time.Second))
		require.Equal(t, 2, taken)
	})
	t.Run("limits.enabled is off", func(t *testing.T) {
		t.Parallel()
		_, taken, refused := run(config, open(), start)
		require.Equal(t, []int{15, 0}, []int{taken, refused})
	})
}

// Whatever comes in whatever order: a connection enters once, nothing but its end is done before it has entered, and
// nothing after its end.
func TestStepIsSound(t *testing.T) {
	t.Parallel()
	inputs := []Input{
		op("identify", &wire.Identify{ProtocolVersion: 1}), op("resume", &wire.Resume{}), op("heartbeat", &wire.Heartbeat{}), op("reauth", &wire.Reauth{}),
		op("focus", &wire.Focus{}), op("typing.start", &wire.Typing{ThreadID: id(1)}), op("typing.stop", &wire.Typing{ThreadID: id(1)}), op("ack", nil),
		Ticked{}, Entered{Person: true, Expires: start.Add(time.Hour)}, Renewed{start.Add(2 * time.Hour)}, TypingRefused{}, Closed{},
		Rejected{Rejection{code.CloseDecode, "x"}},
	}
	rapid.Check(t, func(t *rapid.T) {
		s, now, entered, asked := State{Since: start}, start, false, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
			in := rapid.SampledFrom(inputs).Draw(t, "in")
			if _, answer := in.(Entered); answer && s.Phase != Entering {
				continue // is only the answer to Enter
			}
			before := s
			var effects []Effect
			s, effects = Step(config, s, now, in)
			require.GreaterOrEqual(t, s.Phase, before.Phase)
			if before.Phase == Ended {
				require.Empty(t, effects)
			}
			for _, effect := range effects {
				switch effect.(type) {
				case Enter:
					require.False(t, entered)
					entered = true
				case AskReauth:
					asked++
				case Close:
					require.Equal(t, Ended, s.Phase)
				default:
					require.Equal(t, Open, before.Phase)
				}
			}
		}
		require.LessOrEqual(t, asked, 60)
	})
}
