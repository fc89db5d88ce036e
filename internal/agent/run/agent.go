package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/acp"
)

// cancelEvery is how often an agent is asked to end its prompt.
const cancelEvery = time.Second

// gate holds what a pause holds.
type gate struct {
	mu     sync.Mutex    // guards closed
	closed chan struct{} // nil while it is open; closed to let go on
}

func (g *gate) set(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case held && g.closed == nil:
		g.closed = make(chan struct{})
	case !held && g.closed != nil:
		close(g.closed)
		g.closed = nil
	}
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed == nil {
		return nil
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx) //nolint:wrapcheck // only that it ended matters
	}
}

// startedAgent is an agent with its own session.
type startedAgent struct {
	agent   *acp.Agent
	session acp.Session
}

// startAgent starts the agent, and lets it load a session of its own when it can.
func (r *Runner) startAgent(ctx context.Context, previous string) (startedAgent, error) {
	agent, err := acp.Start(ctx, acp.Options{
		Command: r.o.Command, Root: r.o.Root, Env: r.o.Env, Environ: r.o.Environ, Log: r.o.Log, Stderr: r.o.Stderr,
		StopGrace: r.o.StopGrace, Version: r.o.Version, Handler: r,
	})
	if err != nil {
		return startedAgent{}, err
	}
	session, err := agent.Open(ctx, previous)
	if err != nil {
		return startedAgent{}, errors.Join(err, r.endAgent(agent))
	}
	return startedAgent{agent, session}, nil
}

// introduce tells which agent works, and watches over it; for the loop.
func (r *Runner) introduce(started startedAgent) {
	r.agent, r.session = started.agent, started.session.ID
	r.emit("", trace.AgentSession{Agent: r.nameOf(started.agent), SessionID: started.session.ID, Loaded: started.session.Loaded})
	if started.session.Loaded {
		r.context = "" // it remembers
	}
	r.workers.Go(func() {
		<-started.agent.Done()
		r.inLoop(r.life, func() { r.agentEnded(started.agent) })
	})
}

// nameOf is what an agent is called; one that does not name itself by its program, also behind a shell.
func (r *Runner) nameOf(agent *acp.Agent) string {
	name := agent.Name()
	if words := strings.Fields(r.o.Command[len(r.o.Command)-1]); name == filepath.Base(r.o.Command[0]) && r.o.Shell && len(words) > 0 {
		return filepath.Base(words[0])
	}
	return name
}

// agentEnded notes the end of an agent; the next prompt starts another. The end of a running prompt is told with the prompt.
func (r *Runner) agentEnded(agent *acp.Agent) {
	if r.agent != agent {
		return
	}
	r.agent = nil
	if !r.prompting {
		r.handle(agentGone{failureOf(agent.Err())})
	}
}

// endAgent stops an agent; nil is none.
func (r *Runner) endAgent(agent *acp.Agent) error {
	if agent == nil {
		return nil
	}
	return agent.Stop(r.life)
}

// terminal lets the translator see what a terminal printed.
func (r *Runner) terminal(id string) (output string, exit *int, truncated, ok bool) {
	if r.agent == nil {
		return "", nil, false, false
	}
	return r.agent.Terminal(id)
}

// prompt gives a text to the agent, which is started when there is none.
func (r *Runner) prompt(text string) {
	starting, quit := context.WithCancel(r.life)
	r.prompting, r.quitStart, r.began = true, quit, r.o.Env.Now()
	agent := r.agent
	r.workers.Go(func() {
		defer quit()
		r.promptAgent(starting, agent, text)
	})
}

func (r *Runner) promptAgent(starting context.Context, agent *acp.Agent, text string) {
	if agent == nil {
		var err error
		if agent, err = r.another(starting); err != nil {
			r.inLoop(r.life, func() { r.promptEnded(nil, acp.Outcome{}, err) })
			return
		}
	}
	first := ""
	if !r.inLoop(r.life, func() { first, r.context, r.quitStart = r.context, "", nil }) {
		return
	}
	if first != "" {
		text = first + "\n\n" + text
	}
	outcome, err := agent.Prompt(r.life, text)
	r.inLoop(r.life, func() { r.promptEnded(agent, outcome, err) })
}

// another starts an agent in place of one that ended.
func (r *Runner) another(ctx context.Context) (*acp.Agent, error) {
	previous := ""
	r.inLoop(ctx, func() { previous = r.session })
	started, err := r.startAgent(ctx, previous)
	if err != nil {
		return nil, err
	}
	if !r.inLoop(r.life, func() { r.introduce(started) }) {
		return nil, errors.Join(context.Canceled, r.endAgent(started.agent))
	}
	return started.agent, nil
}

// promptEnded tells the machine how a prompt ended.
func (r *Runner) promptEnded(agent *acp.Agent, outcome acp.Outcome, err error) {
	r.prompting, r.quitStart = false, nil
	ended := promptEnded{status: trace.TurnCompleted}
	if err != nil {
		failure := failureOf(err)
		if agent != nil && isClosed(agent.Done()) && agent.Err() != nil {
			failure = failureOf(agent.Err())
		}
		ended.status, ended.reason, ended.failure = trace.TurnFailed, failure.Code, &failure
		if failure.Code != codeRefused && r.agent == agent {
			r.agent = nil // its end is told with the prompt, and not again
		}
	} else {
		ended.status, ended.reason = statusOf(outcome.StopReason)
	}
	tools := trace.ToolError
	if ended.status == trace.TurnCancelled || r.machine.cancelled() {
		tools = trace.ToolCancelled
	}
	ended.payloads = r.translator.Close(tools)
	if outcome.Usage != nil {
		ended.payloads = append(ended.payloads, *outcome.Usage)
	}
	if r.killed {
		ended.payloads = append(ended.payloads, trace.Failure{
			Message: fmt.Sprintf("the agent did not stop within %s of being asked, and was ended", r.o.CancelGrace), Code: "agent_killed",
		})
	}
	r.flush.Stop()
	r.killed, r.killAt = false, time.Time{}
	r.handle(ended)
}

// statusOf reads why the agent stopped.
func statusOf(reason acpsdk.StopReason) (trace.TurnStatus, string) {
	switch reason {
	case acpsdk.StopReasonEndTurn:
		return trace.TurnCompleted, ""
	case acpsdk.StopReasonCancelled:
		return trace.TurnCancelled, ""
	default: // refusal, or a limit of tokens or of requests
		return trace.TurnFailed, string(reason)
	}
}

// codeRefused is the code of an agent that is alive and does not do as it was asked.
const codeRefused = "agent_error"

// failureOf puts what went wrong with an agent into words.
func failureOf(err error) trace.Failure {
	var garbage *acp.GarbageError
	var exited *acp.ExitError
	switch {
	case err == nil:
		return trace.Failure{Message: "the agent ended", Code: "agent_exited"}
	case errors.As(err, &garbage):
		return trace.Failure{Message: err.Error(), Code: "agent_garbage"}
	case errors.As(err, &exited):
		return trace.Failure{Message: err.Error(), Code: "agent_exited"}
	default:
		return trace.Failure{Message: err.Error(), Code: codeRefused}
	}
}

// interrupt asks the agent to end its prompt; if it does not, the agent is ended.
func (r *Runner) interrupt() {
	if !r.prompting {
		return
	}
	if r.killAt.IsZero() { // being asked again gives no more time
		r.killAt = r.o.Env.Now().Add(r.o.CancelGrace)
	}
	if r.quitStart != nil {
		r.quitStart()
	}
	r.cancel()
}

// cancel asks the agent to end its prompt. It is asked again and again until it does: the first time may have come before the
// prompt itself.
func (r *Runner) cancel() {
	agent := r.agent
	r.cancelAt = r.o.Env.Now().Add(cancelEvery)
	if agent == nil {
		return
	}
	r.workers.Go(func() {
		if err := agent.Cancel(r.life); err != nil {
			r.o.Log.Warn("cancel prompt", "error", err)
		}
	})
}

// kill ends an agent that does not do as it is asked.
func (r *Runner) kill() {
	r.killAt, r.killed = time.Time{}, true
	agent := r.agent
	if agent == nil {
		return
	}
	r.workers.Go(func() {
		if err := r.endAgent(agent); err != nil {
			r.o.Log.Error("end agent", "error", err)
		}
	})
}

// Update takes what the agent did; it returns when there is room for it and no pause holds. It is for the agent only.
func (r *Runner) Update(ctx context.Context, update acpsdk.SessionUpdate) {
	taken := r.inLoop(ctx, func() {
		pending := r.translator.Pending()
		r.handle(gotOutput{payloads: r.translator.Update(update), boundary: update.ToolCall != nil})
		if r.translator.Pending() && !pending {
			r.flush.Reset(gatherFor)
		}
	})
	if taken {
		_ = r.gate.pass(ctx) // when ctx ends there is nothing left to hold
	}
}

// Step holds a request of the agent while a pause holds. It is for the agent only.
func (r *Runner) Step(ctx context.Context) error {
	r.inLoop(ctx, func() { r.handle(gotOutput{boundary: true}) })
	return r.gate.pass(ctx)
}

// Permission asks whoever steers the session. It is for the agent only.
func (r *Runner) Permission(ctx context.Context, request acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
	id := "ask-" + r.o.Env.Token(6)
	answer := make(chan string, 1)
	asked := r.inLoop(ctx, func() {
		r.replies[id] = answer
		r.handle(gotOutput{payloads: r.translator.Asking(request)}) // what led to the question is read first
		r.handle(gotAsk{r.translator.Ask(request, id)})
	})
	if !asked {
		return cancelledAsk(), nil
	}
	select {
	case option := <-answer:
		if option == "" || r.gate.pass(ctx) != nil {
			return cancelledAsk(), nil //nolint:nilerr // the agent is gone then
		}
		if rejects(request, option) {
			r.inLoop(ctx, func() { r.handle(gotOutput{payloads: r.translator.Deny(string(request.ToolCall.ToolCallId))}) })
		}
		return acpsdk.RequestPermissionResponse{Outcome: acpsdk.NewRequestPermissionOutcomeSelected(acpsdk.PermissionOptionId(option))}, nil
	case <-ctx.Done():
	case <-r.ended:
	}
	r.inLoop(r.life, func() {
		delete(r.replies, id)
		r.handle(askGone{id})
	})
	return cancelledAsk(), nil
}

// rejects reports whether an option refuses what was asked.
func rejects(request acpsdk.RequestPermissionRequest, option string) bool {
	for _, offered := range request.Options {
		if string(offered.OptionId) == option {
			return offered.Kind == acpsdk.PermissionOptionKindRejectOnce || offered.Kind == acpsdk.PermissionOptionKindRejectAlways
		}
	}
	return false
}

func cancelledAsk() acpsdk.RequestPermissionResponse {
	return acpsdk.RequestPermissionResponse{Outcome: acpsdk.NewRequestPermissionOutcomeCancelled()}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
