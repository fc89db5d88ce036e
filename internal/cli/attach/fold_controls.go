package attach

import (
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// control shows what somebody asked for.
func (t *transcript) control(e entry) {
	c := *e.control
	t.sent[c.ID] = c
	label := t.name(c.FromDeviceID) + " " + controlVerb(c)
	if c.TargetDeviceID != nil {
		label += " → " + t.name(*c.TargetDeviceID)
	}
	body := ""
	if c.Text != nil {
		body = manyLines(short(*c.Text, 8000))
	}
	if c.AskID != nil && body == "" {
		if asked := t.asks[*c.AskID]; asked != nil {
			body = firstLine(asked.body)
		}
	}
	t.controls[c.ID] = t.line(e, magenta, "»", label, body)
}

func controlVerb(c wire.Control) string {
	if c.Mode == wire.ModeOpen {
		return "asks to open the session"
	}
	switch c.Kind {
	case wire.ControlSend:
		return "sends"
	case wire.ControlAnswer:
		return "answers"
	case wire.ControlApprove:
		return "approves"
	case wire.ControlDeny:
		return "denies"
	case wire.ControlCancel:
		return "cancels"
	case wire.ControlSteer:
		return "steers"
	case wire.ControlInject:
		return "adds"
	case wire.ControlPause:
		return "pauses"
	case wire.ControlResume:
		return "resumes"
	default:
		return oneLine(short(string(c.Kind), wire.MaxKind))
	}
}

// settled puts an ask and its answer into one line.
func (t *transcript) settled(e entry, p trace.AskResolved) {
	title := oneLine(short(p.AskID, wire.MaxID))
	if asked := t.asks[p.AskID]; asked != nil {
		title = firstLine(asked.body)
		t.hide(asked)
	}
	t.hide(t.controls[p.ControlID])
	b := t.line(e, yellow, "!", title, settledText(p, t.asked[p.AskID], t.name))
	delete(t.asks, p.AskID)
	delete(t.asked, p.AskID)
	if p.Outcome == trace.AskCancelled || p.Outcome == trace.AskExpired {
		b.style = faint
	}
}

// settledText says how an ask was settled and by whom.
func settledText(p trace.AskResolved, ask trace.Ask, name func(string) string) string {
	text := oneLine(short(string(p.Outcome), 40))
	switch p.Outcome {
	case trace.AskSelected:
		text = oneLine(short(p.OptionID, 200))
		for _, option := range ask.Options {
			if option.ID == p.OptionID && option.Label != "" {
				text = oneLine(short(option.Label, 200))
			}
		}
	case trace.AskText:
		text = "“" + oneLine(short(p.Text, 500)) + "”"
	case trace.AskCancelled, trace.AskExpired:
	}
	if p.ByDeviceID != "" {
		text += ", by " + name(p.ByDeviceID)
	}
	return withReason(text, p.Reason)
}

// outcome shows what became of a control, when it is not simply done.
func (t *transcript) outcome(e entry, p trace.ControlResult) {
	t.hide(t.queued[p.ControlID])
	if p.Outcome == trace.ControlApplied {
		return
	}
	what := "control " + oneLine(short(p.ControlID, 40))
	if control, known := t.sent[p.ControlID]; known {
		what = t.name(control.FromDeviceID) + " " + controlVerb(control)
	}
	b := t.line(e, magenta, "«", what, outcomeText(p, func(id string) string {
		if asked := t.asks[id]; asked != nil {
			return firstLine(asked.body)
		}
		return oneLine(short(id, wire.MaxID))
	}))
	if p.Outcome != trace.ControlQueued {
		return
	}
	if t.queued[p.ControlID] = b; t.paused && p.BlockedByAskID == "" {
		t.held = append(t.held, b)
	}
}

func outcomeText(p trace.ControlResult, asked func(id string) string) string {
	text := oneLine(short(string(p.Outcome), 40))
	if p.Outcome == trace.ControlQueued {
		text = "waits"
	}
	if p.BlockedByAskID != "" {
		text += ", first answer: " + asked(p.BlockedByAskID)
	}
	return withReason(text, p.Reason)
}
