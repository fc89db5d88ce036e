package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

func isConfigError(err error) bool {
	var wrong *config.Error
	return errors.As(err, &wrong)
}

// explain says what is wrong and what to do about it.
func (a *app) explain(err error) string {
	var (
		refused  *client.APIError
		flag     *flagRefusedError
		refusal  *fault.Error
		closed   *client.ClosedError
		gateway  *workspace.Closed
		database *storage.Refusal
		held     *heldError
		hinted   *hintedError
	)
	switch {
	case errors.As(err, &hinted):
		return a.explain(hinted.cause) + "\n" + hinted.hint
	case errors.As(err, &held):
		return held.Error()
	case errors.As(err, &database):
		return explainDatabase(database)
	case errors.As(err, &flag):
		return flag.message
	case errors.As(err, &refused):
		return a.explainAnswer(refused)
	case workspace.AsProblem(err) != nil && errors.Is(err, workspace.ErrSignedOut):
		return "the sign-in has ended\nSign in again: `cairn auth login`"
	case workspace.AsProblem(err) != nil:
		return explainProblem(workspace.AsProblem(err))
	case errors.Is(err, workspace.ErrSignedOut):
		return "nobody is signed in here\nSign in first: `cairn auth login URL`"
	case errors.Is(err, workspace.ErrRevoked):
		return "the server ended this device's access\nAsk an administrator, then sign in again: `cairn auth login URL`"
	case errors.As(err, &gateway):
		return explainGateway(gateway)
	case errors.As(err, &closed):
		return explainClosed(closed)
	case errors.As(err, &refusal) && refusal.Code != code.InternalError:
		return strings.TrimSuffix(refusal.Message, ".")
	case errors.Is(err, context.Canceled):
		return "interrupted"
	default:
		return err.Error()
	}
}

// hintedError is an error with what helps in this place.
type hintedError struct {
	cause error
	hint  string
}

// Error answers the cause and what helps.
func (e *hintedError) Error() string { return e.cause.Error() + "\n" + e.hint }

// Unwrap answers the cause.
func (e *hintedError) Unwrap() error { return e.cause }

// orCreate says how to make a session that is not there, when it was named by a key.
func orCreate(ref string, err error) error {
	refused := client.AsAPIError(err)
	if _, isID := env.ParseID(ref); isID || refused == nil || refused.Code != code.NotFound || !strings.HasPrefix(refused.Message, "Session ") {
		return err
	}
	return &hintedError{err, "Make it first: `cairn session create --key " + ref + "`"}
}

// explainAnswer says what the server refused.
func (a *app) explainAnswer(refused *client.APIError) string {
	message := strings.TrimSuffix(refused.Message, ".")
	switch {
	case refused.Code == code.InvalidAPIKey:
		return "the server does not accept the key in " + envKey + "\n" +
			"It may be revoked or of another server; `cairn key add USER` on the server's machine makes a new one."
	case refused.Code == code.Forbidden && strings.Contains(message, "registered to another account"):
		return message + "\nThis install's device id belongs to another user: set " + envDevice + " to another UUID for this one."
	case refused.Code == code.NotFound && strings.HasSuffix(strings.TrimRight(a.baseURL(), "/"), "/v1"):
		return message + "\n" + envURL + " says where the server is, without /v1."
	case refused.Code == code.NotAMember:
		return message + "\n" + a.membershipHint(message)
	case refused.Code == code.BadRequest:
		return explainFields(message, refused)
	case refused.Code == "":
		return fmt.Sprintf("what answered at %s is no cairn server (HTTP %d)\n%s says where it is, without /v1.", a.baseURL(), refused.Status, envURL)
	case refused.Status >= 500:
		return fmt.Sprintf("%s (%s)\nThe server's log tells more%s.", message, refused.Code, underRequest(refused))
	default:
		return message
	}
}

func underRequest(refused *client.APIError) string {
	if refused.TraceID == "" {
		return ""
	}
	return " under request " + refused.TraceID
}

// membershipHint says what helps somebody who may not do this.
func (a *app) membershipHint(message string) string {
	switch {
	case strings.HasPrefix(message, "Your role"):
		return "Ask the session's owner for a higher one: an editor may send and steer, an owner may share and execute."
	case a.getenv(envShareToken) != "":
		return envShareToken + " does not open it: the link may have ended, or be of another session. Ask its owner for a new one."
	default:
		return "Ask the session's owner to share it with you."
	}
}

// explainDatabase is the refusal in one line: a driver may give the same cause for each address it tried.
func explainDatabase(refusal *storage.Refusal) string {
	text := "open database: " + refusal.Advice
	if refusal.Cause == nil {
		return text
	}
	var lines []string
	for line := range strings.Lines(refusal.Cause.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return text + " (" + strings.Join(lines, " ") + ")"
}

// explainFields says what is wrong with each field of a request, once: a message that only repeats it is left out.
func explainFields(message string, refused *client.APIError) string {
	wrong := refused.FieldErrors()
	lines := slices.Clone(wrong.FormErrors)
	for field, problems := range wrong.FieldErrors {
		lines = append(lines, field+": "+strings.Join(problems, ", "))
	}
	if len(lines) == 0 {
		return message
	}
	slices.Sort(lines)
	if before, _, found := strings.Cut(message, ":"); found {
		message = before
	}
	return message + "\n  " + strings.Join(lines, "\n  ")
}

func explainClosed(closed *client.ClosedError) string {
	switch closed.Code {
	case code.CloseNoAccess:
		return "you may not see this session any more"
	case code.CloseNotFound:
		return "the session was deleted"
	case code.CloseBadKey:
		return "your key or device is no longer good, so the server ended the stream"
	default:
		return closed.Error()
	}
}
