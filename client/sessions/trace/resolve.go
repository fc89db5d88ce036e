package trace

import (
	"errors"
	"fmt"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Errors of Resolve.
var (
	// ErrNoOption is an approve or deny of a question that has nothing to allow or reject.
	ErrNoOption = errors.New("question has no such option")
	// ErrOtherAsk is a control for another question.
	ErrOtherAsk = errors.New("control is for another question")
	// ErrNoAnswer is a control that answers no question.
	ErrNoAnswer = errors.New("control answers no question")
)

// Resolve settles a question by a control: approve takes the first allow_once option, else the first allow;
// deny the first reject_once, else the first reject; answer takes an option by id, else by label, else is
// free text.
func Resolve(ask Ask, control wire.Control) (AskResolved, error) {
	resolved := AskResolved{AskID: ask.AskID, ControlID: control.ID, ByDeviceID: control.FromDeviceID}
	if control.AskID != nil && *control.AskID != ask.AskID {
		return AskResolved{}, ErrOtherAsk
	}
	switch control.Kind {
	case wire.ControlApprove:
		return pick(resolved, ask.Options, AllowOnce, AllowAlways)
	case wire.ControlDeny:
		return pick(resolved, ask.Options, RejectOnce, RejectAlways)
	case wire.ControlAnswer:
		return answer(resolved, ask.Options, control.Text), nil
	default:
		return AskResolved{}, fmt.Errorf("%w: %s", ErrNoAnswer, control.Kind)
	}
}

func pick(resolved AskResolved, options []Option, kinds ...OptionKind) (AskResolved, error) {
	for _, kind := range kinds {
		for _, option := range options {
			if option.Kind == kind {
				resolved.Outcome, resolved.OptionID = AskSelected, option.ID
				return resolved, nil
			}
		}
	}
	return AskResolved{}, ErrNoOption
}

func answer(resolved AskResolved, options []Option, text *string) AskResolved {
	given := ""
	if text != nil {
		given = *text
	}
	for _, text := range []func(Option) string{
		func(o Option) string { return o.ID },
		func(o Option) string { return o.Label },
	} {
		for _, option := range options {
			if given != "" && text(option) == given {
				resolved.Outcome, resolved.OptionID = AskSelected, option.ID
				return resolved
			}
		}
	}
	resolved.Outcome, resolved.Text = AskText, given
	return resolved
}
