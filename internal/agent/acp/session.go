package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// Session is a conversation of the agent.
type Session struct {
	ID     string
	Loaded bool // it is the earlier one, which the agent remembers
}

// Outcome is how a prompt ended.
type Outcome struct {
	StopReason acpsdk.StopReason
	Usage      *trace.Usage // of this prompt; nil when the agent does not tell
}

// initialize introduces this program.
func (a *Agent) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.StartLimit)
	defer cancel()
	request := acpsdk.InitializeRequest{
		ProtocolVersion: acpsdk.ProtocolVersionNumber,
		ClientCapabilities: acpsdk.ClientCapabilities{
			Fs:       acpsdk.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true},
			Terminal: true,
		},
		ClientInfo: &acpsdk.Implementation{Name: "cairn", Version: a.o.Version},
	}
	settle := func(answer acpsdk.InitializeResponse, err error) {
		if err == nil {
			a.mu.Lock()
			a.hello, a.ready = answer, true
			a.mu.Unlock()
		}
	}
	answer, err := ask(ctx, a, "initialize agent", acpsdk.AgentMethodInitialize, request, settle)
	if err != nil {
		return a.late(ctx, "initialize", err)
	}
	if answer.ProtocolVersion != acpsdk.ProtocolVersionNumber {
		return &VersionError{Agent: a.Name(), Got: int(answer.ProtocolVersion)}
	}
	return nil
}

// late says that the agent took longer than StartLimit, when that is why a request failed.
func (a *Agent) late(ctx context.Context, what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s did not answer %s within %s: %w", a.Name(), what, a.o.StartLimit, err)
	}
	return err
}

// Open takes up the session previous, when it is not "" and the agent can (session/load, or session/resume when
// it has only that); else, or when that fails, it makes a new one in Root. What the agent replays of an earlier
// session is not told to the Handler. Errors: *AuthError, *Refusal, ErrBusy, ErrStopped, what ended the agent.
func (a *Agent) Open(ctx context.Context, previous string) (Session, error) {
	if previous != "" {
		err := a.takeUp(ctx, acpsdk.SessionId(previous))
		if err == nil {
			return Session{ID: previous, Loaded: true}, nil
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) && !errors.Is(err, errCannot) {
			return Session{}, err
		}
		a.log.Info("agent does not take up the earlier session, a new one is made", "session", previous, "reason", err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, a.o.StartLimit)
	defer cancel()
	request := acpsdk.NewSessionRequest{Cwd: a.o.Root, McpServers: []acpsdk.McpServer{}}
	settle := func(answer acpsdk.NewSessionResponse, err error) {
		if err == nil {
			a.opened(answer.SessionId)
		}
	}
	answer, err := ask(ctx, a, "make a session of the agent", acpsdk.AgentMethodSessionNew, request, settle)
	switch {
	case err != nil:
		return Session{}, a.late(ctx, acpsdk.AgentMethodSessionNew, err)
	case answer.SessionId == "":
		return Session{}, fmt.Errorf("make a session of the agent: %s answered none", a.Name())
	}
	return Session{ID: string(answer.SessionId)}, nil
}

// errCannot is an agent that has no way to take up an earlier session.
var errCannot = errors.New("the agent cannot load sessions")

func (a *Agent) takeUp(ctx context.Context, previous acpsdk.SessionId) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.StartLimit)
	defer cancel()
	a.mu.Lock()
	can := a.hello.AgentCapabilities
	a.session = "" // what is replayed belongs to no session yet
	a.mu.Unlock()
	settle := func(_ json.RawMessage, err error) {
		if err == nil {
			a.opened(previous)
		}
	}
	method, request := acpsdk.AgentMethodSessionLoad, any(acpsdk.LoadSessionRequest{
		Cwd: a.o.Root, McpServers: []acpsdk.McpServer{}, SessionId: previous,
	})
	if !can.LoadSession {
		if can.SessionCapabilities.Resume == nil {
			return errCannot
		}
		method, request = acpsdk.AgentMethodSessionResume, acpsdk.ResumeSessionRequest{
			Cwd: a.o.Root, McpServers: []acpsdk.McpServer{}, SessionId: previous,
		}
	}
	_, err := ask(ctx, a, "take up the agent's session", method, request, settle)
	return a.late(ctx, method, err)
}

func (a *Agent) opened(id acpsdk.SessionId) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session = id
}

func (a *Agent) authMethods() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, method := range a.hello.AuthMethods {
		switch {
		case method.Agent != nil:
			names = append(names, method.Agent.Name)
		case method.EnvVar != nil:
			names = append(names, method.EnvVar.Name)
		case method.Terminal != nil:
			names = append(names, method.Terminal.Name)
		}
	}
	return names
}

// Prompt is one turn: it sends text and answers when the agent has stopped, after Handler.Update returned for
// everything it said before that. When ctx ends first the agent is told to cancel; it may go on until it obeys,
// and until then another Prompt is ErrBusy. Errors else: ErrNoSession, ErrStopped, *AuthError, what ended the
// agent (*ExitError, *GarbageError), *Refusal.
func (a *Agent) Prompt(ctx context.Context, text string) (Outcome, error) {
	session := a.current()
	if session == "" {
		return Outcome{}, ErrNoSession
	}
	var outcome Outcome
	request := acpsdk.PromptRequest{SessionId: session, Prompt: []acpsdk.ContentBlock{acpsdk.TextBlock(text)}}
	settle := func(answer acpsdk.PromptResponse, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			outcome = Outcome{StopReason: answer.StopReason, Usage: usageOf(answer)}
		}
	}
	_, err := ask(ctx, a, "prompt agent", acpsdk.AgentMethodSessionPrompt, request, settle)
	if err != nil {
		if ctx.Err() != nil {
			a.giveUp()
		}
		return Outcome{}, err
	}
	return outcome, nil
}

// giveUp cancels the prompt without waiting for the agent to read it, which it may never do.
func (a *Agent) giveUp() {
	session, running := a.toCancel()
	if !running {
		return
	}
	defer a.withdraw()
	select {
	case a.cancels <- struct{}{}:
		_, _ = a.writeCancel(session) // a stopped agent needs no cancel
	default: // another is being written
	}
}

// Cancel tells the agent to stop its prompt (session/cancel) and ends the contexts of open permissions, which
// are answered cancelled; so are those that the prompt still asks for. Without a prompt it does nothing. An error
// means that the agent did not read it; the permissions are cancelled all the same.
func (a *Agent) Cancel(ctx context.Context) error {
	session, running := a.toCancel()
	if !running {
		return nil
	}
	defer a.withdraw()
	select {
	case a.cancels <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	written, err := a.writeCancel(session)
	if err != nil {
		return a.failed(ctx, "cancel prompt", err)
	}
	select {
	case err := <-written:
		if err != nil {
			return a.failed(ctx, "cancel prompt", err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// toCancel answers the session whose prompt is to be cancelled; from now on it may ask for nothing more.
func (a *Agent) toCancel() (session acpsdk.SessionId, running bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancelled = a.call != nil && a.call.prompt
	return a.session, a.cancelled
}

// writeCancel writes a cancellation in the background and gives the place in cancels back.
func (a *Agent) writeCancel(session acpsdk.SessionId) (written <-chan error, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refuses(); err != nil {
		<-a.cancels
		return nil, err
	}
	result := make(chan error, 1)
	a.calls.Go(func() {
		request := acpsdk.CancelNotification{SessionId: session}
		result <- a.conn.SendNotification(context.Background(), acpsdk.AgentMethodSessionCancel, request)
		<-a.cancels
	})
	return result, nil
}

// withdraw ends the contexts of open permissions.
func (a *Agent) withdraw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cancel := range a.asks {
		cancel(errWithdrawn)
	}
}
