package run_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/crash"
	"github.com/cairnsync/cairn/internal/testkit/netproxy"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// whole is what the agent said in a turn, pieces put together.
func (s *stage) whole(turn string) string {
	var text bytes.Buffer
	for _, event := range s.log.until("anything", func([]entry) bool { return true }) {
		if piece, ok := event.payload.(trace.Assistant); ok && event.TurnID != nil && *event.TurnID == turn {
			text.WriteString(piece.Text)
		}
	}
	return text.String()
}

// dense checks that the log has no hole and no client_event_id twice.
func (s *stage) dense() {
	seen := map[string]bool{}
	for i, event := range s.log.until("anything", func([]entry) bool { return true }) {
		require.EqualValues(s.t, i+1, event.Seq)
		if event.payload != nil {
			require.False(s.t, seen[*event.ClientEventID], "event %d is there twice", event.Seq)
			seen[*event.ClientEventID] = true
		}
	}
}

// through answers options that reach the server by a way that can be made bad.
func (s *stage) through(way *netproxy.Proxy, agent ...string) run.Options {
	o := s.options(agent...)
	o.Client = s.client(way.URL(), desktop, wire.PlatformDesktop)
	return o
}

func TestNetworkLoss(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		for name, bad := range map[string]func(*netproxy.Proxy){
			"refused":     func(way *netproxy.Proxy) { way.Set(netproxy.Refuse) },
			"silent":      func(way *netproxy.Proxy) { way.Set(netproxy.Swallow) },
			"one way":     func(way *netproxy.Proxy) { way.Set(netproxy.OneWay) },
			"half closed": func(way *netproxy.Proxy) { way.HalfClose() },
			"reset":       func(way *netproxy.Proxy) { way.Reset() },
			"slow":        func(way *netproxy.Proxy) { way.Delay(50 * time.Millisecond) },
		} {
			t.Run(name+": what is said meanwhile is stored once and in order when the network is back", func(t *testing.T) {
				t.Parallel()
				s := newStage(t, testkit.New(t, db.Engine))
				way := netproxy.New(t, s.url)
				s.start(s.through(way))
				id := s.send("say begin\nwait " + s.file("bad") + "\nchunks 500 x\ntool t1 read Look\nchunks 500 x\ntouch " + s.file("said") + "\nsay end")
				s.said("begin")
				bad(way)
				s.touch("bad")
				require.Eventually(t, func() bool { return exists(s.file("said")) }, patience, 10*time.Millisecond)
				way.Set(netproxy.Good)
				way.Reset() // what hangs ends
				require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
				require.Equal(t, "begin"+strings.Repeat("x", 1000)+"end", s.whole(id))
				s.dense()
				s.applied(id)
			})
		}
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestServerRestarts(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := testkit.NewURL(t, engine)
			key := firstUser(t, url)
			server := crash.Start(t, url)
			way := netproxy.New(t, server.URL())
			s := stageAt(t, way.URL(), key)
			s.start(s.options())
			id := s.send("say begin\nwait " + s.file("down") + "\nchunks 300 x\nask a1 Survive\nsay end")
			s.said("begin")
			server.Kill()
			s.touch("down")
			server.Restart()
			way.Point(server.URL())
			s.answer(wire.ControlApprove, s.openAsk("Survive").AskID)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			require.Equal(t, "begin"+strings.Repeat("x", 300)+"allow"+"end", strings.ReplaceAll(s.whole(id), "\n", ""))
			s.dense()
		})
	}
}

// firstUser makes a user in a database that no server has opened yet.
func firstUser(t *testing.T, url string) string {
	db := testkit.Open(t, storage.Options{URL: url})
	email := "ada@example.test"
	user, err := identity.New(db, signal.NewLocal(), env.Real()).AddUser(t.Context(), "ada", &email)
	require.NoError(t, err)
	return user.APIKey
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		t.Run("a full queue stops reading from the agent, and drops nothing", func(t *testing.T) {
			s := newStage(t, db)
			way := netproxy.New(t, s.url)
			progress := filepath.Join(t.TempDir(), "progress")
			o := s.through(way, "progress="+progress)
			o.QueueEvents, o.QueueBytes = 20, 256<<10
			s.start(o)
			text := strings.Repeat("y", 1000)
			id := s.send("say begin\nwait " + s.file("bad") + "\nchunks 1500 " + text)
			s.said("begin")
			way.Set(netproxy.Swallow)
			s.touch("bad")
			stuck := -1
			require.Eventually(t, func() bool {
				content, _ := os.ReadFile(progress)
				now, err := strconv.Atoi(string(content))
				if err != nil || now == 0 || now != stuck {
					stuck = now
					return false
				}
				return true
			}, patience, time.Second, "the agent is never held")
			require.Less(t, stuck, 1400)
			way.Set(netproxy.Good)
			way.Reset()
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			require.Len(t, s.whole(id), len("begin")+1500*len(text))
			s.dense()
		})
	})
}

// agentOf answers the process of a runner's agent, from what the system knows of its children.
func (s *stage) agentOf(p *process) int {
	children, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(s.t, err)
	for _, path := range children {
		content, _ := os.ReadFile(path) // it may be gone
		_, rest, _ := strings.Cut(string(content), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(p.command.Process.Pid) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(s.t, err)
			return pid
		}
	}
	return 0
}

// alive reports whether a process runs; one that only waits to be noticed by its parent does not.
func alive(pid int) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(content), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

func TestKilledRunner(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		way := netproxy.New(t, s.url)
		memory := t.TempDir()
		first := s.process(way.URL(), "load="+memory)
		done := s.send("say done before")
		s.turnEnd(done)
		id := s.send("open t7\nask a1 Who answers\nhangforever")
		ask := s.openAsk("Who answers")
		behind := s.send("say queued behind it")
		s.result(behind, trace.ControlQueued)
		pid := s.agentOf(first)
		first.kill()

		t.Run("an agent does not outlive a killed run", func(t *testing.T) {
			if runtime.GOOS == "linux" { // elsewhere it ends with its standard input, if it does
				require.Eventually(t, func() bool { return !alive(pid) }, patience, 10*time.Millisecond)
			}
		})
		second := s.process(way.URL(), "load="+memory)
		t.Run("after a kill the next run closes the question and the turn with a reason, and runs no prompt twice", func(t *testing.T) {
			resolved := s.resolved(ask.AskID)
			require.Equal(t, trace.AskExpired, resolved.Outcome)
			require.NotEmpty(t, resolved.Reason)
			require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status)
			_, result := await(s.log, func(_ entry, result trace.ToolResult) bool { return result.ToolCallID == "t7" })
			require.Equal(t, trace.ToolCancelled, result.Status)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(behind).Status)
			s.applied(id)
			starts := map[string]int{}
			for _, start := range every[trace.TurnStart](s.log) {
				starts[start.ControlID]++
			}
			require.Equal(t, map[string]int{done: 1, id: 1, behind: 1}, starts)
			_, session := await(s.log, func(_ entry, session trace.AgentSession) bool { return session.Loaded })
			require.NotEmpty(t, session.SessionID)
		})
		t.Run("what was said while the network was away and the process was killed is stored by the next run", func(t *testing.T) {
			id := s.send("say begin\nwait " + s.file("bad") + "\nchunks 300 z\nsay end\ntouch " + s.file("said") + "\nhang")
			s.said("begin")
			way.Set(netproxy.Swallow)
			s.touch("bad")
			require.Eventually(t, func() bool { return exists(s.file("said")) }, patience, 10*time.Millisecond)
			journal := filepath.Join(s.folder, "journal")
			require.Eventually(t, func() bool { content, _ := os.ReadFile(journal); return bytes.Contains(content, []byte("end")) }, patience, 10*time.Millisecond)
			second.kill()
			way.Set(netproxy.Good)
			way.Reset()
			s.process(way.URL(), "load="+memory)
			require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status)
			require.Equal(t, "begin"+strings.Repeat("z", 300)+"end", s.whole(id))
			s.dense()
		})
	})
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		way := netproxy.New(t, s.url)
		first := s.start(s.through(way))
		elsewhere := s.options()
		elsewhere.Client, elsewhere.Folder = s.client(s.url, laptop, wire.PlatformCLI), filepath.Join(t.TempDir(), "laptop")

		t.Run("two of them on one session: one loses cleanly", func(t *testing.T) {
			_, err := run.Start(t.Context(), s.options())
			require.ErrorIs(t, err, run.ErrRunsHere)
			_, err = run.Start(t.Context(), elsewhere)
			var held *run.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, desktop, held.DeviceID)
		})
		t.Run("SS-CON-3 loss of the lease stops the agent within a heartbeat; what is left is kept in a file and said", func(t *testing.T) {
			pids := s.send("say remember the word heron\nspawn exec sleep 600")
			s.turnEnd(pids)
			id := s.send("say begin\nwait " + s.file("bad") + "\nsay lost words\ntouch " + s.file("said") + "\nhangforever")
			s.said("begin")
			way.Set(netproxy.Swallow)
			s.touch("bad")
			require.Eventually(t, func() bool { return exists(s.file("said")) }, patience, 10*time.Millisecond)
			elsewhere.Force = true
			second := s.start(elsewhere)
			way.Set(netproxy.Good)
			way.Reset()
			err := s.ended(first)
			var lost *sessions.LeaseLostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, sessions.LossTaken, lost.Reason)
			require.Equal(t, laptop, lost.HolderDeviceID)
			aside, err := filepath.Glob(filepath.Join(s.folder, "unsent-*.jsonl"))
			require.NoError(t, err)
			require.Len(t, aside, 1)
			content, err := os.ReadFile(aside[0])
			require.NoError(t, err)
			require.Contains(t, string(content), "lost words")
			require.Contains(t, first.LastWords(), aside[0])
			require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status, "the next executor closes the turn")
			require.NoError(t, second.Err())
		})
		t.Run("an agent that does not know the session is given the end of the transcript", func(t *testing.T) {
			id := s.send("echo")
			s.turnEnd(id)
			require.Contains(t, s.whole(id), "remember the word heron")
			again := s.send("echo")
			s.turnEnd(again)
			require.NotContains(t, s.whole(again), "heron", "once")
		})
	})
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	way := netproxy.New(t, s.url)
	runner := s.start(s.through(way))
	id := s.send("say begin\nwait " + s.file("bad") + "\nsay kept words\nhang")
	s.said("begin")
	way.Set(netproxy.Swallow)
	s.touch("bad")
	t.Run("SS-CON-3 when no heartbeat gets through the agent is stopped by the device's own clock", func(t *testing.T) {
		var lost *sessions.LeaseLostError
		require.ErrorAs(t, s.ended(runner), &lost)
		require.Equal(t, sessions.LossUnreachable, lost.Reason)
		require.Contains(t, runner.LastWords(), "journal")
	})
	t.Run("what it said is stored when it executes again and nobody else has", func(t *testing.T) {
		way.Set(netproxy.Good)
		way.Reset()
		s.start(s.through(way))
		require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status)
		require.Equal(t, "beginkept words", s.whole(id))
		s.dense()
	})
}

func TestCleanStop(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		runner := s.start(s.options())
		id := s.send("ask a1 Still there")
		ask := s.openAsk("Still there")
		s.stop(runner)
		require.NoError(t, runner.Err())
		require.Equal(t, trace.AskExpired, s.resolved(ask.AskID).Outcome)
		require.Equal(t, trace.TurnCancelled, s.turnEnd(id).Status)
		detail, err := s.phone.GetSession(t.Context(), s.session)
		require.NoError(t, err)
		require.Nil(t, detail.Lease, "the lease is given back")
		require.NoFileExists(t, filepath.Join(s.folder, "journal"))
	})
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	s := newStage(t, testkit.New(t, testkit.SQLite))
	for name, change := range map[string]func(*run.Options){
		"no such program":   func(o *run.Options) { o.Command = []string{"/no/such/agent"} },
		"dies at the start": func(o *run.Options) { o.Command = append(o.Command, "die=4") },
		"wants a sign-in":   func(o *run.Options) { o.Command = append(o.Command, "auth") },
		"another protocol":  func(o *run.Options) { o.Command = append(o.Command, "version=9") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := s.options()
			o.Folder = filepath.Join(t.TempDir(), "own")
			change(&o)
			_, err := run.Start(t.Context(), o)
			var broken *run.StartError
			require.ErrorAs(t, err, &broken)
			detail, err := s.phone.GetSession(t.Context(), s.session)
			require.NoError(t, err)
			require.Nil(t, detail.Lease)
		})
	}
}
