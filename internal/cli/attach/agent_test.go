package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestTakingOver(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(o *setup) { o.canTake = true })
	s.begin()
	require.Equal(t, takeEffect{force: true}, only[takeEffect](t, s.enter("/take")))
	require.Empty(t, all[takeEffect](s.enter("/take")))
	s.m.handle(takenMsg{errors.New("no \x1b]0;x\aagent")})
	s.shows("could not take over: no agent")
	s.frames(client.LeaseFrame{})
	require.Equal(t, takeEffect{}, only[takeEffect](t, s.enter("/take")))
	require.Equal(t, presenceEffect{attention: true, driving: true}, only[presenceEffect](t, s.m.handle(takenMsg{})))
	s.m.handle(driverNoticeMsg{"loading"})
	s.shows("agent: loading")
	require.Equal(t, presenceEffect{attention: true}, only[presenceEffect](t, s.m.handle(driverEndMsg{errors.New("it died")})))
	s.shows("the agent ended: it died")

	at := newModel(setup{own: ownDevice, now: func() time.Time { return s.at }, canTake: true, take: true, detail: detailFor(wire.RoleOwner)})
	require.Len(t, all[takeEffect](at.start()), 1)
	editor := newStage(t, func(o *setup) { o.canTake, o.detail = true, detailFor(wire.RoleEditor) })
	editor.begin()
	require.Empty(t, all[takeEffect](editor.enter("/take")))
	editor.shows("only devices of the session's owner")
}

func atStart(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, func(o *setup) { o.canTake, o.take = true, true })
	s.begin()
	return s
}

func TestOnlyAPersonTakesASessionAway(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"refused here":          &agentrun.HeldError{DeviceID: deskTop},
		"refused by the server": fmt.Errorf("claim lease: %w", &client.APIError{Status: 409, Code: code.LeaseHeld, Message: "held (holder_device_id=" + deskTop + ")"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var started []effect
			s := newStage(t, func(o *setup) {
				o.canTake, o.take = true, true
				o.detail.Lease = &wire.Lease{DeviceID: deskTop}
				started = newModel(*o).start()
			})
			require.Equal(t, takeEffect{force: false}, only[takeEffect](t, started), "another device drives, and nobody said to take it away")
			s.m.handle(takenMsg{refusal})
			s.begin()
			s.shows("work station drives this session; /take takes it over", "enter sends a new turn")
			require.ErrorContains(t, s.m.farewell(nil), "work station drives this session: the agent did not run")
			require.Equal(t, takeEffect{force: true}, only[takeEffect](t, s.enter("/take")))
			s.m.handle(takenMsg{})
			s.hides("/take takes it over")
			require.NoError(t, s.m.farewell(nil))
		})
	}
}

func TestAnAgentThatDoesNotStart(t *testing.T) {
	t.Parallel()
	s := atStart(t)
	s.frames(client.LeaseFrame{})
	s.shows("the agent starts: what you send waits for it")
	why := &agentrun.StartError{Err: errors.New("a-coding-agent asks to be logged in first: start it by itself and log in " +
		"(it offers: Log in with your account in the browser, Use an API key from the environment); it says:\nno credentials were found")}
	s.m.handle(takenMsg{why})
	s.m.handle(noticeMsg{s.m.noticeNumber})
	s.shows("the agent does not start: a-coding-agent asks", "environment", "no credentials were found", "no agent runs: what you send waits for one")
	require.ErrorIs(t, s.m.farewell(nil), why, "it outlives the screen")
	s.m.handle(tea.WindowSizeMsg{Width: 40, Height: 10})
	fits(t, s.m)
	s.shows("the agent does not start")
	s.m.handle(tea.WindowSizeMsg{Width: 80, Height: 24})
	s.enter("hello")
	s.hides("the agent does not start")

	watching := newStage(t, func(o *setup) { o.canTake = true })
	watching.begin()
	watching.enter("/take")
	watching.m.handle(takenMsg{why})
	require.NoError(t, watching.m.farewell(nil), "a screen that was opened to watch did what it was for")
}

func TestHowAnAgentEnds(t *testing.T) {
	t.Parallel()
	path := "/home/somebody/.local/state/cairn/sessions/0192f0c1-aaaa-bbbb-cccc-1234567890ab/unsent-20260102T030405.000.jsonl"
	kept := errors.New("3 events could not be stored any more, because another device has executed since; they are kept in " + path)
	taken := &client.LeaseLostError{Reason: client.LossTaken, HolderDeviceID: deskTop, Err: &client.APIError{Status: 409, Code: code.LeaseHeld, Message: "held"}}
	away := &client.LeaseLostError{Reason: client.LossUnreachable}
	for _, one := range []struct {
		name  string
		err   error
		shows []string
		after string
	}{
		{"taken", taken, []string{"work station drives now; you watch"}, ""},
		{"taken with something to say", errors.Join(taken, kept), []string{"work station drives now; you watch", "are kept in", "000.jsonl"}, path},
		{"unreachable", away, []string{"the server could not be reached for so long that the lease ended"}, "could not be reached"},
		{"nobody drives", &client.LeaseLostError{Reason: client.LossExpired}, []string{"the lease ended, and nobody drives"}, "nobody drives"},
		{"it was ended before it could store", errors.Join(context.Canceled, kept), []string{"the agent ended: 3 events could not"}, path},
		{"it died", errors.New("exit status 3"), []string{"the agent ended: exit status 3"}, "exit status 3"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			s := atStart(t)
			s.m.handle(takenMsg{})
			s.m.handle(driverEndMsg{one.err})
			s.shows(one.shows...)
			s.hides(deskTop, "lease lost")
			fits(t, s.m)
			left := s.m.farewell(one.err)
			if one.after == "" {
				require.NoError(t, left)
				return
			}
			require.ErrorIs(t, left, one.err)
			require.ErrorContains(t, left, one.after)
			require.Nil(t, client.AsAPIError(left), "no refusal speaks in its place")
			require.NotErrorIs(t, left, context.Canceled)
			s.press("esc")
			s.hides(one.shows[0])
		})
	}
	t.Run("by a device whose name is learnt then", func(t *testing.T) {
		t.Parallel()
		s := atStart(t)
		s.m.handle(takenMsg{})
		effects := s.m.handle(driverEndMsg{&client.LeaseLostError{Reason: client.LossTaken, HolderDeviceID: tablet}})
		require.Len(t, all[detailEffect](effects), 1)
		s.m.handle(detailMsg{detail: withTablet()})
		s.shows("tablet drives now; you watch")
	})
	t.Run("what is kept is said in full", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		s.m.handle(driverNoticeMsg{kept.Error()})
		s.shows("agent: 3 events", "000.jsonl")
	})
}

func TestLeavingSaysThatItStores(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	var out bytes.Buffer
	a := &agent{done: make(chan struct{}), notice: make(chan string, 1), err: errors.New("3 events could not be stored yet")}
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), func(o *Options) {
		o.Out, o.TakeAtStart = &out, true
		o.Take = func(context.Context, bool) (Driver, error) { return a, nil }
	})
	w.shows("this device drives now")
	w.types("\x03\x03")
	require.ErrorContains(t, w.leaves(), "3 events could not be stored yet")
	said := out.String()
	require.Contains(t, said, "stopping the agent and storing what it said")
	require.Greater(t, strings.Index(said, "stopping the agent"), strings.LastIndex(said, "\x1b[?1049l"), "after the screen is gone")
}

func TestAnAgentThatNeverRan(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), func(o *Options) {
		o.TakeAtStart = true
		o.Take = func(context.Context, bool) (Driver, error) {
			return nil, &agentrun.StartError{Err: errors.New("gemini: not found")}
		}
	})
	w.shows("the agent does not start: gemini: not found", "no agent runs")
	w.types("/quit\r")
	require.ErrorContains(t, w.leaves(), "the agent does not start: gemini: not found")
}
