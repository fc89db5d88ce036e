package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestTurn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		early := s.send("say before anybody was there")
		s.start(s.options())
		t.Run("a prompt sent before the executor attached is executed once", func(t *testing.T) {
			require.Equal(t, trace.TurnCompleted, s.turnEnd(early).Status)
			s.said("before anybody was there")
			s.applied(early)
			require.Len(t, every[trace.TurnStart](s.log), 1)
		})
		t.Run("a prompt whose answer was lost and is sent again runs once", func(t *testing.T) {
			text := "say once"
			control := wire.IncomingControl{ID: "the-same", Kind: wire.ControlSend, Text: &text}
			for range 3 {
				_, err := s.phone.SendControl(t.Context(), s.session, control)
				require.NoError(t, err)
			}
			s.turnEnd("the-same")
			after := s.send("say after")
			s.turnEnd(after)
			starts := 0
			for _, start := range every[trace.TurnStart](s.log) {
				if start.ControlID == "the-same" {
					starts++
				}
			}
			require.Equal(t, 1, starts)
		})
		t.Run("section 8: each thing an agent does is told in its kind", func(t *testing.T) {
			id := s.send("think hm\nsay now\ntool t1 execute Run it\ndiff $ROOT/a.txt\nplan one|two*|three+\nusage 10 20\nterminal echo printed\nfail t9")
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			_, thought := await(s.log, func(_ entry, piece trace.Assistant) bool { return piece.Thought })
			require.Equal(t, "hm", thought.Text)
			_, start := await(s.log, func(_ entry, start trace.ToolStart) bool { return start.ToolCallID == "t1" })
			require.Equal(t, "Run it", start.Title)
			_, result := await(s.log, func(_ entry, result trace.ToolResult) bool { return result.ToolCallID == "t1" })
			require.Equal(t, trace.ToolOK, result.Status)
			require.Equal(t, "result of t1", result.Content[0].Text())
			_, todos := await[trace.Todos](s.log, nil)
			require.Equal(t, 1, todos.Done)
			require.Equal(t, 3, todos.Total)
			_, usage := await[trace.Usage](s.log, nil)
			require.EqualValues(t, 10, usage.PromptTokens)
			s.log.until("a diff and a terminal", func(all []entry) bool {
				kinds := map[string]bool{}
				for _, event := range all {
					if result, ok := event.payload.(trace.ToolResult); ok {
						for _, content := range result.Content {
							kinds[content.Type] = true
						}
					}
				}
				return kinds[trace.ContentDiff] && kinds[trace.ContentTerminal]
			})
		})
		t.Run("message chunks are coalesced, never one event per token", func(t *testing.T) {
			id := s.send("chunks 5000 tok")
			s.turnEnd(id)
			pieces, whole := 0, 0
			for _, event := range s.log.until("the end", func([]entry) bool { return true }) {
				if piece, ok := event.payload.(trace.Assistant); ok && event.TurnID != nil && *event.TurnID == id {
					pieces++
					whole += len(piece.Text)
				}
			}
			require.Equal(t, 5000*len("tok"), whole)
			require.Less(t, pieces, 250)
		})
	})
}

func TestAsks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		s.start(s.options())
		t.Run("an approval raised with no client attached is there when one attaches, and any editor answers it", func(t *testing.T) {
			id := s.send("ask a1 Delete the folder")
			ask := s.openAsk("Delete the folder")
			late := follow(t, s.client(s.url, laptop, wire.PlatformWeb), s.session, "")
			_, seen := await(late, func(_ entry, seen trace.Ask) bool { return seen.AskID == ask.AskID })
			require.Equal(t, ask, seen)
			control := s.answer(wire.ControlApprove, ask.AskID)
			resolved := s.resolved(ask.AskID)
			require.Equal(t, trace.AskSelected, resolved.Outcome)
			require.Equal(t, control, resolved.ControlID)
			require.Equal(t, mobile, resolved.ByDeviceID)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			s.applied(control)
		})
		t.Run("SS-CTL-3 of two answers at once the first wins for all, the other one is told so", func(t *testing.T) {
			id := s.send("ask a2 Push it")
			ask := s.openAsk("Push it")
			yes := s.answer(wire.ControlApprove, ask.AskID)
			no := s.answer(wire.ControlDeny, ask.AskID)
			require.Equal(t, yes, s.resolved(ask.AskID).ControlID)
			require.NotEmpty(t, s.result(no, trace.ControlSuperseded).Reason)
			s.turnEnd(id)
			s.applied(no)
		})
		t.Run("a call that was denied is told to be, and an agent may use its id again", func(t *testing.T) {
			id := s.send("ask a7 Format the disk\nsay fine\ntool a7 read Look instead")
			s.answer(wire.ControlDeny, s.openAsk("Format the disk").AskID)
			s.turnEnd(id)
			_, start := await(s.log, func(_ entry, start trace.ToolStart) bool { return start.Title == "Format the disk" })
			_, result := await(s.log, func(_ entry, result trace.ToolResult) bool { return result.ToolCallID == start.ToolCallID })
			require.Equal(t, trace.ToolCancelled, result.Status)
			require.Contains(t, result.Content[len(result.Content)-1].Text(), "denied")
			_, second := await(s.log, func(_ entry, start trace.ToolStart) bool { return start.Title == "Look instead" })
			require.NotEqual(t, start.ToolCallID, second.ToolCallID)
		})
		t.Run("five approvals at once are all listed and answerable in any order", func(t *testing.T) {
			before := len(every[trace.Ask](s.log))
			id := s.send("asks 5")
			s.log.until("five questions", func([]entry) bool { return len(every[trace.Ask](s.log)) == before+5 })
			asks := every[trace.Ask](s.log)[before:]
			for _, at := range []int{3, 0, 4, 2, 1} {
				kind := wire.ControlApprove
				if at%2 == 1 {
					kind = wire.ControlDeny
				}
				s.answer(kind, asks[at].AskID)
			}
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			for _, ask := range asks {
				require.Equal(t, trace.AskSelected, s.resolved(ask.AskID).Outcome)
			}
		})
		t.Run("text sent while an approval is open tells the sender what blocks it, and runs afterwards", func(t *testing.T) {
			id := s.send("ask a3 Wait for me")
			ask := s.openAsk("Wait for me")
			next := s.send("say the next one")
			require.Equal(t, ask.AskID, s.result(next, trace.ControlQueued).BlockedByAskID)
			s.answer(wire.ControlApprove, ask.AskID)
			s.turnEnd(id)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(next).Status)
		})
		t.Run("an approval of a finished turn is closed", func(t *testing.T) {
			id := s.send("ask a4 Too late")
			ask := s.openAsk("Too late")
			s.control(wire.ControlCancel, nil)
			require.Equal(t, trace.TurnCancelled, s.turnEnd(id).Status)
			require.Equal(t, trace.AskCancelled, s.resolved(ask.AskID).Outcome)
			late := s.answer(wire.ControlApprove, ask.AskID)
			s.result(late, trace.ControlExpired)
			s.applied(late)
		})
		t.Run("words as an answer refuse the agent and are the next thing it hears", func(t *testing.T) {
			id := s.send("ask a5 Use main")
			ask := s.openAsk("Use main")
			words := "say I use the branch"
			s.control(wire.ControlAnswer, func(c *wire.IncomingControl) { c.AskID, c.Text = &ask.AskID, &words })
			require.Equal(t, trace.AskText, s.resolved(ask.AskID).Outcome)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			s.said("I use the branch")
		})
	})
}

func TestSteering(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		s.start(s.options())
		t.Run("SS-CTL-3 what is queued when a run is cancelled ends applied or cancelled, exactly once, visibly", func(t *testing.T) {
			id := s.send("say working\nhang")
			s.said("working")
			steer := s.say(wire.ControlSteer, "say never")
			inject := s.say(wire.ControlInject, "say never either")
			next := s.send("say the turn after")
			gone := s.send("say taken back")
			cancelled := s.control(wire.ControlCancel, func(c *wire.IncomingControl) { c.TurnID = &gone })
			s.result(gone, trace.ControlSuperseded)
			s.result(cancelled, trace.ControlApplied)
			s.control(wire.ControlCancel, nil)
			require.Equal(t, trace.TurnCancelled, s.turnEnd(id).Status)
			require.Equal(t, trace.TurnCompleted, s.turnEnd(next).Status)
			for _, control := range []string{steer, inject, next, gone, cancelled} {
				s.applied(control)
			}
			ends := map[string]int{}
			for _, result := range every[trace.ControlResult](s.log) {
				if result.Outcome != trace.ControlQueued {
					ends[result.ControlID]++
				}
			}
			for _, start := range every[trace.TurnStart](s.log) {
				ends[start.ControlID]++
			}
			for _, control := range []string{steer, inject, next, gone, cancelled} {
				require.Equal(t, 1, ends[control])
			}
		})
		t.Run("SS-CTL-3 a steer goes on in the turn that runs, an inject with what comes next", func(t *testing.T) {
			id := s.send("say begun\nwait " + s.file("go"))
			s.said("begun")
			inject := s.say(wire.ControlInject, "say injected words")
			steer := s.say(wire.ControlSteer, "say steered words")
			s.result(steer, trace.ControlQueued)
			s.touch("go")
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			s.said("injected words")
			s.said("steered words")
			s.result(inject, trace.ControlApplied)
			s.result(steer, trace.ControlApplied)
			s.applied(steer)
			steps := 0
			for _, event := range s.log.until("the end", func([]entry) bool { return true }) {
				if step, ok := event.payload.(trace.StepStart); ok && *event.TurnID == id {
					steps++
					require.Equal(t, steps, step.Step, "steps count on in a turn")
				}
			}
			require.Equal(t, 2, steps)
		})
		t.Run("SS-CTL-3 pause holds at the next step boundary, the turn stays open; resume sends nothing again", func(t *testing.T) {
			id := s.send("say first\nwait " + s.file("step") + "\nwrite $ROOT/made.txt it\nsay last")
			s.said("first")
			pause := s.control(wire.ControlPause, nil)
			s.applied(pause)
			s.touch("step")
			await(s.log, func(_ entry, state trace.RunState) bool { return state.State == trace.StatePaused })
			require.NoFileExists(t, s.file("made.txt"))
			s.applied(s.control(wire.ControlResume, nil))
			require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
			require.FileExists(t, s.file("made.txt"))
			s.said("last")
			await(s.log, func(_ entry, state trace.RunState) bool { return state.State == trace.StateRunning })
		})
		t.Run("SS-CON-3 a control for another device is left alone", func(t *testing.T) {
			_, err := s.client(s.url, laptop, wire.PlatformCLI).Devices(t.Context()) // registers it
			require.NoError(t, err)
			text := "say elsewhere"
			receipt, err := s.phone.Dispatch(t.Context(), s.session, wire.Dispatch{DeviceID: laptop, Text: &text, Mode: wire.ModeSend})
			require.NoError(t, err)
			s.turnEnd(s.send("say here"))
			for _, start := range every[trace.TurnStart](s.log) {
				require.NotEqual(t, receipt.ControlID, start.ControlID)
			}
		})
	})
}

func TestAgentHangs(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		o := s.options()
		o.QuietLimit, o.CancelGrace = 4*time.Second, time.Second
		s.start(o)
		for _, script := range []string{"say x\nhang", "say x\nhangforever"} {
			id := s.send(script)
			end := s.turnEnd(id)
			require.Equal(t, trace.TurnFailed, end.Status)
			require.Equal(t, "deadline", end.Reason)
			await(s.log, func(event entry, limit trace.Deadline) bool {
				return event.TurnID != nil && *event.TurnID == id && limit.Budget == trace.BudgetRequest && limit.MS == 4000
			})
			require.Equal(t, trace.TurnCompleted, s.turnEnd(s.send("say alive")).Status)
		}
		await(s.log, func(_ entry, failure trace.Failure) bool { return failure.Code == "agent_killed" })
		id := s.send("ask a Wait as long as you like")
		ask := s.openAsk("Wait as long as you like")
		busy := s.send("terminal sleep 5")
		<-time.After(5 * time.Second) // longer than the limit: a question is no hang
		s.answer(wire.ControlApprove, ask.AskID)
		require.Equal(t, trace.TurnCompleted, s.turnEnd(id).Status)
		require.Equal(t, trace.TurnCompleted, s.turnEnd(busy).Status, "nor is a terminal that runs")
	})
}

// untold counts the errors of this code that belong to no turn.
func (s *stage) untold(code string) int {
	count := 0
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, event := range s.log.all {
		if failure, ok := event.payload.(trace.Failure); ok && event.TurnID == nil && failure.Code == code {
			count++
		}
	}
	return count
}

func TestAgentFails(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db)
		o := s.options("load=" + t.TempDir())
		o.CancelGrace = time.Second
		s.start(o)
		failed := func(t *testing.T, id, code string) {
			t.Helper()
			require.Equal(t, trace.TurnFailed, s.turnEnd(id).Status)
			await(s.log, func(event entry, failure trace.Failure) bool {
				return event.TurnID != nil && *event.TurnID == id && strings.HasPrefix(failure.Code, code)
			})
		}
		for _, row := range []struct{ name, script, code string }{
			{"dies", "say bye\nstderr out of memory\ndie 3", "agent_exited"},
			{"writes garbage", "say ok\ngarbage Segmentation fault", "agent_garbage"},
			{"writes a line without end", "longline 12000000", "agent_garbage"},
			{"refuses the prompt", "error no credit left", "agent_error"},
			{"closes its output", "say x\nclosestdout\nhangforever", "agent_"},
		} {
			t.Run(fmt.Sprintf("an agent that %s is an error and the end of its turn, never a silent session", row.name), func(t *testing.T) {
				before := s.untold(row.code)
				failed(t, s.send(row.script), row.code)
				require.Equal(t, before, s.untold(row.code), "it is told once, with its turn")
				next := s.send("say alive again")
				require.Equal(t, trace.TurnCompleted, s.turnEnd(next).Status)
			})
		}
		t.Run("a question of an agent that dies is closed, in words that say so", func(t *testing.T) {
			id := s.send("spawn (while [ ! -e " + s.file("die") + " ]; do sleep 0.05; done; kill -9 $PPID)\nask a9 Will you answer")
			ask := s.openAsk("Will you answer")
			s.touch("die")
			failed(t, id, "agent_exited")
			require.Contains(t, []trace.AskOutcome{trace.AskCancelled, trace.AskExpired}, s.resolved(ask.AskID).Outcome)
			late := s.answer(wire.ControlApprove, ask.AskID)
			s.result(late, trace.ControlExpired)
		})
		t.Run("questions and calls of a turn that is cancelled are closed", func(t *testing.T) {
			id := s.send("open t1\nasks 2")
			s.log.until("two questions", func([]entry) bool { return len(every[trace.Ask](s.log)) == 3 })
			s.control(wire.ControlCancel, nil)
			s.turnEnd(id)
			for _, ask := range every[trace.Ask](s.log)[1:] {
				require.Equal(t, trace.AskCancelled, s.resolved(ask.AskID).Outcome)
			}
			_, result := await(s.log, func(_ entry, result trace.ToolResult) bool { return result.ToolCallID == "t1" })
			require.Equal(t, trace.ToolCancelled, result.Status)
		})
		t.Run("an agent that ended at rest is told, and started again", func(t *testing.T) {
			s.turnEnd(s.send("spawn (while [ ! -e " + s.file("rest") + " ]; do sleep 0.05; done; kill -9 $PPID)"))
			s.touch("rest")
			await(s.log, func(event entry, failure trace.Failure) bool {
				return event.TurnID == nil && failure.Code == "agent_exited"
			})
			require.Equal(t, trace.TurnCompleted, s.turnEnd(s.send("say back")).Status)
			loaded := 0
			for _, session := range every[trace.AgentSession](s.log) {
				if session.Loaded {
					loaded++
				}
			}
			require.Positive(t, loaded, "it is given its own session again")
		})
	})
}
