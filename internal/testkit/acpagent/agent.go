package acpagent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/internal/env"
)

type agent struct {
	options options
	out     *output
	conn    *acpsdk.AgentSideConnection
	hangs   atomic.Bool   // it goes on without stdin
	forever chan struct{} // never closed

	mu       sync.Mutex // guards sessions
	sessions map[acpsdk.SessionId]*session
}

// session is one conversation.
type session struct {
	id   acpsdk.SessionId
	cwd  string
	file string // where it is kept, "" when it is not
}

// Initialize introduces the agent, or does what the options say instead.
func (a *agent) Initialize(ctx context.Context, _ acpsdk.InitializeRequest) (acpsdk.InitializeResponse, error) {
	if a.options.die != 0 {
		os.Exit(a.options.die)
	}
	if a.options.hang {
		<-ctx.Done()
	}
	hello := acpsdk.InitializeResponse{
		ProtocolVersion:   acpsdk.ProtocolVersion(a.options.version),
		AgentCapabilities: acpsdk.AgentCapabilities{LoadSession: a.options.load != ""},
		AgentInfo:         &acpsdk.Implementation{Name: "scripted", Title: acpsdk.Ptr("Scripted Agent"), Version: "1"},
	}
	if a.options.noInfo {
		hello.AgentInfo = nil
	}
	if a.options.resume != "" {
		hello.AgentCapabilities.SessionCapabilities.Resume = &acpsdk.SessionResumeCapabilities{}
	}
	if a.options.auth {
		hello.AuthMethods = []acpsdk.AuthMethod{
			{Agent: &acpsdk.AuthMethodAgent{Id: "browser", Name: "Log in with a browser"}},
			{Agent: &acpsdk.AuthMethodAgent{Id: "key", Name: "Use an API key"}},
		}
	}
	return hello, nil
}

// NewSession makes a session.
func (a *agent) NewSession(ctx context.Context, p acpsdk.NewSessionRequest) (acpsdk.NewSessionResponse, error) {
	if a.options.auth {
		return acpsdk.NewSessionResponse{}, acpsdk.NewAuthRequired(nil)
	}
	if a.options.hangNew {
		<-ctx.Done()
	}
	made := a.keep(acpsdk.SessionId("sess-"+env.Real().RandomID()), p.Cwd)
	if made.file != "" {
		if err := os.WriteFile(made.file, nil, 0o600); err != nil {
			return acpsdk.NewSessionResponse{}, err
		}
	}
	return acpsdk.NewSessionResponse{SessionId: made.id}, nil
}

func (a *agent) keep(id acpsdk.SessionId, cwd string) *session {
	made := &session{id: id, cwd: cwd}
	if folder := a.options.load + a.options.resume; folder != "" {
		made.file = filepath.Join(folder, string(id))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[id] = made
	return made
}

// LoadSession takes up a session and replays it.
func (a *agent) LoadSession(ctx context.Context, p acpsdk.LoadSessionRequest) (acpsdk.LoadSessionResponse, error) {
	if a.options.slowLoad != "" {
		if err := until(ctx, a.options.slowLoad); err != nil {
			return acpsdk.LoadSessionResponse{}, err
		}
	}
	prompts, err := a.remembered(p.SessionId, p.Cwd)
	if err != nil {
		return acpsdk.LoadSessionResponse{}, err
	}
	for _, prompt := range prompts {
		for _, update := range []acpsdk.SessionUpdate{acpsdk.UpdateUserMessageText(prompt), acpsdk.UpdateAgentMessageText("replayed: " + prompt)} {
			if err := a.conn.SessionUpdate(ctx, acpsdk.SessionNotification{SessionId: p.SessionId, Update: update}); err != nil {
				return acpsdk.LoadSessionResponse{}, err
			}
		}
	}
	return acpsdk.LoadSessionResponse{}, nil
}

// ResumeSession takes up a session.
func (a *agent) ResumeSession(_ context.Context, p acpsdk.ResumeSessionRequest) (acpsdk.ResumeSessionResponse, error) {
	_, err := a.remembered(p.SessionId, p.Cwd)
	return acpsdk.ResumeSessionResponse{}, err
}

// remembered answers the prompts of a session that was kept.
func (a *agent) remembered(id acpsdk.SessionId, cwd string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(a.options.load+a.options.resume, filepath.Base(string(id))))
	if err != nil {
		return nil, acpsdk.NewInvalidParams(map[string]any{"error": "no such session"})
	}
	a.keep(id, cwd)
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), nil
}

// Prompt does what the prompt says.
func (a *agent) Prompt(ctx context.Context, p acpsdk.PromptRequest) (acpsdk.PromptResponse, error) {
	a.mu.Lock()
	current := a.sessions[p.SessionId]
	a.mu.Unlock()
	if current == nil {
		return acpsdk.PromptResponse{}, acpsdk.NewInvalidParams(map[string]any{"error": "no such session"})
	}
	var text strings.Builder
	for _, block := range p.Prompt {
		if block.Text != nil {
			text.WriteString(block.Text.Text)
		}
	}
	if current.file != "" {
		file, err := os.OpenFile(current.file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return acpsdk.PromptResponse{}, err
		}
		_, err = file.WriteString(text.String() + "\x00")
		if err := file.Close(); err != nil {
			return acpsdk.PromptResponse{}, err
		}
		if err != nil {
			return acpsdk.PromptResponse{}, err
		}
	}
	return a.play(ctx, current, text.String())
}

// Cancel needs nothing: the SDK ends the context of the prompt.
func (a *agent) Cancel(context.Context, acpsdk.CancelNotification) error { return nil }

// Authenticate is always content.
func (a *agent) Authenticate(context.Context, acpsdk.AuthenticateRequest) (acpsdk.AuthenticateResponse, error) {
	return acpsdk.AuthenticateResponse{}, nil
}

// CloseSession is not offered.
func (a *agent) CloseSession(context.Context, acpsdk.CloseSessionRequest) (acpsdk.CloseSessionResponse, error) {
	return acpsdk.CloseSessionResponse{}, acpsdk.NewMethodNotFound(acpsdk.AgentMethodSessionClose)
}

// ListSessions is not offered.
func (a *agent) ListSessions(context.Context, acpsdk.ListSessionsRequest) (acpsdk.ListSessionsResponse, error) {
	return acpsdk.ListSessionsResponse{}, acpsdk.NewMethodNotFound(acpsdk.AgentMethodSessionList)
}

// SetSessionConfigOption is not offered.
func (a *agent) SetSessionConfigOption(
	context.Context, acpsdk.SetSessionConfigOptionRequest,
) (acpsdk.SetSessionConfigOptionResponse, error) {
	return acpsdk.SetSessionConfigOptionResponse{}, acpsdk.NewMethodNotFound(acpsdk.AgentMethodSessionSetConfigOption)
}

// SetSessionMode is not offered.
func (a *agent) SetSessionMode(context.Context, acpsdk.SetSessionModeRequest) (acpsdk.SetSessionModeResponse, error) {
	return acpsdk.SetSessionModeResponse{}, acpsdk.NewMethodNotFound(acpsdk.AgentMethodSessionSetMode)
}

// until waits for a file.
func until(ctx context.Context, file string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
