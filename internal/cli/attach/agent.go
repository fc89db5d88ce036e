package attach

import (
	"context"
	"errors"
	"strings"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// startAgent takes the session over with the agent of this process. From a device that drives it is taken only when the
// person asked for that here.
func (m *model) startAgent(asked bool) {
	switch {
	case !m.canTake:
		m.sayf(yellow, `no agent to take over with: start it with cairn attach SESSION --command "AGENT …"`)
		return
	case m.driving || m.starting:
		m.sayf(yellow, "this device drives already")
		return
	case m.role != wire.RoleOwner:
		const why = "only devices of the session's owner can take it over"
		m.takeErr = errors.New(why)
		m.trouble(yellow, func() string { return why })
		return
	case m.conn == ended:
		m.sayf(yellow, "%s", m.connText)
		return
	}
	m.starting = true
	m.sayf(plain, "starting the agent …")
	held := m.heldBy != "" || m.holder != "" && m.holder != m.own
	m.do(takeEffect{force: asked && held})
}

func (m *model) agent(msg any) {
	switch msg := msg.(type) {
	case takenMsg:
		m.starting, m.heldBy, m.takeErr = false, "", msg.err
		if msg.err != nil {
			m.notTaken(msg.err)
			return
		}
		m.driving, m.ran, m.problem = true, true, ""
		m.sayf(green, "this device drives now")
	case driverNoticeMsg:
		m.sayf(plain, "agent: %s", short(msg.text, maxProblem))
	case driverEndMsg:
		m.driving = false
		if msg.err == nil {
			m.sayf(yellow, "the agent ended")
			return
		}
		m.trouble(red, func() string { return strings.Join(m.endLines(msg.err), "\n") })
	}
}

// maxProblem bounds what is said at once, in characters.
const maxProblem = 4000

// trouble shows a text of several lines until the person does something. It is made anew when more devices have names.
func (m *model) trouble(in style, text func() string) {
	m.retell = func() { m.problem, m.problemStyle = manyLines(short(text(), maxProblem)), in }
	m.retell()
	m.notice = ""
}

// notTaken says why the agent did not start here.
func (m *model) notTaken(err error) {
	holder := holderOf(err)
	_, ofAgent := errors.AsType[*agentrun.StartError](err)
	switch {
	case holder != "":
		m.heldBy = holder
		m.learn(holder)
		m.trouble(yellow, func() string { return m.name(holder) + " drives this session; /take takes it over" })
	case ofAgent:
		m.trouble(red, err.Error)
	default:
		m.trouble(red, func() string { return "could not take over: " + err.Error() })
	}
}

// holderOf answers the device whose lease is in the way, or "".
func holderOf(err error) string {
	if held, is := errors.AsType[*agentrun.HeldError](err); is {
		return held.DeviceID
	}
	if refused := client.AsAPIError(err); refused != nil {
		return refused.HolderDeviceID()
	}
	return ""
}

// endLines says how an agent ended, a line for each thing there is to say.
func (m *model) endLines(err error) []string {
	var lines []string
	for _, part := range partsOf(err) {
		lost, isLost := errors.AsType[*client.LeaseLostError](part)
		switch {
		case isLost && lost.HolderDeviceID != "":
			m.learn(lost.HolderDeviceID)
			lines = append(lines, m.name(lost.HolderDeviceID)+" drives now; you watch")
		case isLost && lost.Reason == client.LossUnreachable:
			lines = append(lines, "the server could not be reached for so long that the lease ended")
		case errors.Is(part, context.Canceled) && len(partsOf(err)) > 1: // it took too long to end, which is no news beside the others
		case isLost:
			lines = append(lines, "the lease ended, and nobody drives")
		case len(lines) == 0:
			lines = append(lines, "the agent ended: "+part.Error())
		default:
			lines = append(lines, part.Error())
		}
	}
	return lines
}

// partsOf answers the errors that were joined.
func partsOf(err error) []error {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		return []error{err}
	}
	var parts []error
	for _, part := range joined.Unwrap() {
		parts = append(parts, partsOf(part)...)
	}
	return parts
}

// endError is an error in the words of the screen.
type endError struct {
	text string // fit to print
	err  error
}

// Error answers the words.
func (e *endError) Error() string { return e.text }

// Is matches what the error matches, but for a context that ended, which would be taken for all there is to say. It is not
// unwrapped: these words are for people already, also where the cause is a refusal that has words of its own.
func (e *endError) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.err, target)
}

// farewell answers what outlives the screen: how the agent ended, when that is more than that somebody else drives, and
// why the agent that this screen was opened for never ran.
func (m *model) farewell(ended error) error {
	if ended == nil {
		if !m.take || m.ran || m.takeErr == nil {
			return nil
		}
		if holder := holderOf(m.takeErr); holder != "" {
			return &endError{m.name(holder) + " drives this session: the agent did not run", m.takeErr}
		}
		return m.takeErr
	}
	if lost, isLost := errors.AsType[*client.LeaseLostError](ended); isLost && lost.HolderDeviceID != "" && len(partsOf(ended)) == 1 {
		return nil
	}
	return &endError{manyLines(short(strings.Join(m.endLines(ended), "\n"), maxProblem)), ended}
}
