package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

func isConfigError(err error) bool {
	var wrong *config.Error
	return errors.As(err, &wrong)
}

// explain says what is wrong and what to do about it.
func explain(err error) string {
	var (
		refused  *client.APIError
		refusal  *fault.Error
		closed   *client.ClosedError
		database *storage.Refusal
	)
	switch {
	case errors.As(err, &database):
		return err.Error()
	case errors.As(err, &refused):
		return explainAnswer(refused)
	case errors.As(err, &closed):
		return explainClosed(closed)
	case errors.As(err, &refusal) && refusal.Code != code.InternalError:
		return refusal.Message
	case errors.Is(err, context.Canceled):
		return "interrupted"
	default:
		return err.Error()
	}
}

// explainAnswer says what the server refused.
func explainAnswer(refused *client.APIError) string {
	message := strings.TrimSuffix(refused.Message, ".")
	switch {
	case refused.Code == code.InvalidAPIKey:
		return "the server does not accept the key in " + envKey + "\n" +
			"It may be revoked or of another server; `cairn key add USER` on the server's machine makes a new one."
	case refused.Code == code.Forbidden && strings.Contains(message, "registered to another account"):
		return message + "\nThis install's device id belongs to another user: set " + envDevice + " to another UUID for this one."
	case refused.Code == code.NotAMember:
		return message + "\nAsk the session's owner to share it with you."
	case refused.Code == code.BadRequest:
		return message + fields(refused)
	case refused.Code == "":
		return fmt.Sprintf("what answered is no cairn server (HTTP %d)\nCAIRN_URL says where it is.", refused.Status)
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

// fields lists what is wrong with each field of a request.
func fields(refused *client.APIError) string {
	wrong := refused.FieldErrors()
	lines := slices.Clone(wrong.FormErrors)
	for field, problems := range wrong.FieldErrors {
		lines = append(lines, field+": "+strings.Join(problems, ", "))
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return ""
	}
	return "\n  " + strings.Join(lines, "\n  ")
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
