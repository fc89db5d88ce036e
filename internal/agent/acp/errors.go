package acp

import (
	"errors"
	"fmt"
	"os"
	"strings"

	acpsdk "github.com/coder/acp-go-sdk"
)

// Errors of an Agent.
var (
	// ErrStopped is a call on an agent that Stop ends or has ended.
	ErrStopped = errors.New("agent is stopped")
	// ErrBusy is a Prompt while the agent still works on another.
	ErrBusy = errors.New("agent works on another prompt")
	// ErrNoSession is a call that needs Open first.
	ErrNoSession = errors.New("agent has no session open")

	// errOver is a request to an agent that is being put away; Agent.failed answers why it is.
	errOver = errors.New("agent has ended")
)

// ExitError is an agent whose process ended, or closed its output, without being asked to.
type ExitError struct {
	State  *os.ProcessState // nil when the system did not tell
	Stderr string           // the last 4 KiB it wrote there
}

// Error says how the process ended and the last line of what it complained about.
func (e *ExitError) Error() string {
	text := "agent ended unexpectedly"
	if e.State != nil {
		text = "agent ended: " + e.State.String()
	}
	if line := lastLine(e.Stderr); line != "" {
		text += ": " + line
	}
	return text
}

// GarbageError is an agent that wrote something that is not the protocol.
type GarbageError struct {
	Reason string // what is wrong with it
	Line   string // its beginning, at most 200 bytes
}

// Error says what is wrong with which line.
func (e *GarbageError) Error() string {
	return fmt.Sprintf("agent broke the protocol: %s: %q", e.Reason, e.Line)
}

// AuthError is an agent that wants its user to log in first.
type AuthError struct {
	Agent   string
	Message string   // what it says itself, "" when that is only that it asks
	Methods []string // names of the ways it offers; may be empty
}

// Error says what to do.
func (e *AuthError) Error() string {
	text := e.Agent + " asks to be logged in first: start it by itself and log in"
	if len(e.Methods) > 0 {
		text += " (it offers: " + strings.Join(e.Methods, ", ") + ")"
	}
	if e.Message != "" {
		text += "; it says: " + e.Message
	}
	return text
}

// Refusal is an error that the agent answered to a request.
type Refusal struct {
	Agent   string
	Request string // what was asked for, as `verb object`
	Code    int    // of JSON-RPC
	Message string // with what it tells besides, when that is text
}

// Error says what the agent said.
func (e *Refusal) Error() string {
	return fmt.Sprintf("%s: %s refused: %s (code %d)", e.Request, e.Agent, e.Message, e.Code)
}

// VersionError is an agent that speaks another version of the protocol.
type VersionError struct {
	Agent string
	Got   int // the version it answered
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s speaks version %d of the agent client protocol, this program version %d", e.Agent, e.Got, acpsdk.ProtocolVersionNumber)
}

// authRequired is the JSON-RPC code of "log in first".
const authRequired = -32000

// said makes an error of what the agent answered to a request; what is the request for people.
func (a *Agent) said(what string, err error) error {
	var refusal *acpsdk.RequestError
	if !errors.As(err, &refusal) {
		return fmt.Errorf("%s: %w", what, err)
	}
	message := saidBy(refusal)
	if refusal.Code != authRequired {
		return &Refusal{Agent: a.Name(), Request: what, Code: refusal.Code, Message: message}
	}
	if strings.EqualFold(message, "authentication required") {
		message = ""
	}
	return &AuthError{Agent: a.Name(), Message: message, Methods: a.authMethods()}
}

// saidBy is the text of a refusal. Agents put what helps into data: as text, or under one of these names.
func saidBy(refusal *acpsdk.RequestError) string {
	detail, _ := refusal.Data.(string)
	if fields, ok := refusal.Data.(map[string]any); ok {
		for _, name := range []string{"details", "error", "message"} {
			if text, ok := fields[name].(string); ok && detail == "" {
				detail = text
			}
		}
	}
	message := strings.TrimSpace(refusal.Message)
	switch {
	case detail == "" || detail == message:
		return message
	case message == "":
		return detail
	default:
		return message + ": " + detail
	}
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// excerpt is the beginning of a line, for errors.
func excerpt(line []byte) string {
	return strings.ToValidUTF8(string(line[:min(len(line), 200)]), "\uFFFD")
}
