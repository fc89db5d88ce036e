package protocol

import (
	"strconv"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Config are the named values that a connection goes by (ES-18).
type Config struct {
	IdentifyTimeout   time.Duration // sync.identify_timeout
	HeartbeatInterval time.Duration // sync.heartbeat_interval
	HeartbeatMisses   int           // sync.heartbeat_miss_limit
	ReauthLeadTime    time.Duration // sync.reauth_lead_time
	MaxFocused        int           // sync.max_focused_threads
	TypingMinInterval time.Duration // sync.typing_min_interval
	// OpBurst ops that need the database are taken at once, then one each OpInterval. Without an interval there is no limit.
	OpBurst    int
	OpInterval time.Duration
}

// Phase is how far a connection is.
type Phase uint8

// The phases; they only grow.
const (
	Greeted  Phase = iota // hello was sent
	Entering              // identify or resume is being looked at
	Open
	Ended
)

// State is one connection. The zero value with Since is a fresh one.
type State struct {
	Phase   Phase
	Since   time.Time // hello was sent
	Beat    time.Time // the last sign of life
	Person  bool
	Expires time.Time // of the token; the zero value is never
	Asked   bool      // reauth_required was sent for this token
	Typed   time.Time // the last typing.start that was taken
	Spent   time.Time // when all ops that were taken are made up for (Config.OpInterval)
}

// Input is something that happened to a connection: one of the types below.
type Input interface{ input() }

type (
	// Received is an op of the client.
	Received struct{ Op Op }
	// Rejected is a frame that could not be read.
	Rejected struct{ Rejection Rejection }
	// Ticked says that time has passed.
	Ticked struct{}
	// Entered says that identify or resume was answered.
	Entered struct {
		Person  bool
		Expires time.Time
	}
	// Renewed says that reauth was good.
	Renewed struct{ Expires time.Time }
	// TypingRefused takes back the throttle that a typing.start set.
	TypingRefused struct{}
	// Closed says that the connection ends, for whatever reason.
	Closed struct{}
)

func (Received) input()      {}
func (Rejected) input()      {}
func (Ticked) input()        {}
func (Entered) input()       {}
func (Renewed) input()       {}
func (TypingRefused) input() {}
func (Closed) input()        {}

// Effect is something to do: one of the types below.
type Effect interface{ effect() }

type (
	// Close ends the connection.
	Close struct {
		Code   code.Close
		Reason string
	}
	// Refuse answers an op with an error; the connection stays.
	Refuse struct{ Failed wire.OpFailed }
	// Enter looks at an identify or a resume; one of them is set.
	Enter struct {
		Identify *wire.Identify
		Resume   *wire.Resume
	}
	// Acknowledge answers a heartbeat and looks whether the device has a newer connection.
	Acknowledge struct{ Ref string }
	// AskReauth asks for a new token.
	AskReauth struct{ Expires time.Time }
	// Renew looks at a new token.
	Renew struct{ Reauth wire.Reauth }
	// SetFocus replaces the focus. The ids are canonical and distinct.
	SetFocus struct {
		Focus wire.Focus
	}
	// Type tells others that the person types.
	Type struct {
		ThreadID string
		Ref      string
	}
)

func (Close) effect()       {}
func (Refuse) effect()      {}
func (Enter) effect()       {}
func (Acknowledge) effect() {}
func (AskReauth) effect()   {}
func (Renew) effect()       {}
func (SetFocus) effect()    {}
func (Type) effect()        {}

// Step answers the state after something happened at now, and what is to be done.
func Step(c Config, s State, now time.Time, in Input) (State, []Effect) {
	if s.Phase == Ended {
		return s, nil
	}
	switch in := in.(type) {
	case Received:
		return c.received(s, now, in.Op)
	case Rejected:
		return end(s, in.Rejection.Code, in.Rejection.Reason)
	case Ticked:
		return c.ticked(s, now)
	case Entered:
		s.Phase, s.Beat, s.Person, s.Expires, s.Asked = Open, now, in.Person, in.Expires, false
		return c.ticked(s, now)
	case Renewed:
		s.Expires, s.Asked = in.Expires, false
		return c.ticked(s, now)
	case TypingRefused:
		s.Typed = time.Time{}
	case Closed:
		s.Phase = Ended
	}
	return s, nil
}

func end(s State, c code.Close, reason string) (State, []Effect) {
	s.Phase = Ended
	return s, []Effect{Close{c, reason}}
}

// ticked ends what took too long (ES-6.3.3, ES-6.3.5, ES-6.3.6).
func (c Config) ticked(s State, now time.Time) (State, []Effect) {
	switch {
	case s.Phase == Greeted && now.Sub(s.Since) >= c.IdentifyTimeout:
		return end(s, code.CloseNotIdentified, "Nobody identified in time.")
	case s.Phase != Open:
		return s, nil
	case !s.Expires.IsZero() && !now.Before(s.Expires):
		return end(s, code.CloseTokenExpired, "The token has expired.")
	case now.Sub(s.Beat) >= c.HeartbeatInterval*time.Duration(c.HeartbeatMisses):
		return end(s, code.CloseHeartbeat, "No heartbeat came.")
	case s.Person && !s.Asked && !s.Expires.IsZero() && !now.Before(s.Expires.Add(-c.ReauthLeadTime)):
		s.Asked = true
		return s, []Effect{AskReauth{s.Expires}}
	default:
		return s, nil
	}
}

func (c Config) received(s State, now time.Time, op Op) (State, []Effect) {
	entering := op.Name == wire.OpIdentify || op.Name == wire.OpResume
	switch {
	case s.Phase == Greeted && !entering:
		return end(s, code.CloseNotIdentified, "Identify first.")
	case s.Phase == Greeted:
		return enter(s, op)
	case entering:
		return end(s, code.CloseAlreadyIdentified, "This connection is identified already.")
	case s.Phase != Open:
		return end(s, code.CloseNotIdentified, "Wait for ready.")
	}
	switch body := op.Body.(type) {
	case *wire.Heartbeat:
		s.Beat = now
		return s, []Effect{Acknowledge{body.Ref}}
	case *wire.Reauth:
		if !s.Person {
			return s, refuse(op, code.NotImplementedForKind, "API tokens are not renewed.")
		}
		return c.spend(s, now, op, Renew{*body})
	case *wire.Focus:
		clean, refused := c.focus(op, body)
		if refused != nil {
			return s, refused
		}
		return c.spend(s, now, op, SetFocus{clean})
	case *wire.Typing:
		return c.typing(s, now, op, body)
	default:
		return s, refuse(op, code.UnknownOp, "This op is not served.")
	}
}

func enter(s State, op Op) (State, []Effect) {
	switch body := op.Body.(type) {
	case *wire.Identify:
		if body.ProtocolVersion != wire.ProtocolVersion {
			return end(s, code.CloseProtocolVersion, "The gateway speaks version "+strconv.Itoa(wire.ProtocolVersion)+".")
		}
		if body.Cursor != nil && *body.Cursor < 0 {
			return end(s, code.CloseDecode, "A cursor is not negative.")
		}
		s.Phase = Entering
		return s, []Effect{Enter{Identify: body}}
	case *wire.Resume:
		if body.Cursor < 0 {
			return end(s, code.CloseDecode, "A cursor is not negative.")
		}
		s.Phase = Entering
		return s, []Effect{Enter{Resume: body}}
	default:
		return end(s, code.CloseNotIdentified, "Identify first.")
	}
}

func refuse(op Op, c code.Code, detail string) []Effect {
	return []Effect{Refuse{wire.OpFailed{Op: op.Name, Code: string(c), Detail: detail, Ref: op.Ref}}}
}

// tooSoon is refuse for what may be tried again after a wait.
func tooSoon(op Op, detail string, wait time.Duration) []Effect {
	return []Effect{Refuse{wire.OpFailed{Op: op.Name, Code: string(code.RateLimited), Detail: detail, Ref: op.Ref, RetryAfter: Seconds(wait)}}}
}

// spend does what needs the database, unless the connection has asked for too much of that lately.
func (c Config) spend(s State, now time.Time, op Op, effect Effect) (State, []Effect) {
	if c.OpInterval <= 0 {
		return s, []Effect{effect}
	}
	spent := s.Spent
	if spent.Before(now) {
		spent = now
	}
	if wait := spent.Sub(now) - time.Duration(c.OpBurst-1)*c.OpInterval; wait > 0 {
		return s, tooSoon(op, "Too much was asked for lately.", wait)
	}
	s.Spent = spent.Add(c.OpInterval)
	return s, []Effect{effect}
}

// focus checks form and number; a focus that is refused leaves the one before (ES-11.3.2).
func (c Config) focus(op Op, focus *wire.Focus) (clean wire.Focus, refused []Effect) {
	clean = wire.Focus{Idle: focus.Idle, Ref: focus.Ref}
	seen := make(map[string]bool)
	for _, list := range []struct{ from, to *[]string }{
		{&focus.ThreadIDs, &clean.ThreadIDs}, {&focus.BackgroundThreadIDs, &clean.BackgroundThreadIDs},
	} {
		for _, raw := range *list.from {
			id, ok := env.ParseID(raw)
			if !ok {
				return clean, refuse(op, code.ValidationFailed, "A thread id is no UUID.")
			}
			if seen[id] {
				continue // in both lists: counts as in thread_ids, which come first
			}
			if len(seen) == c.MaxFocused {
				return clean, refuse(op, code.ValidationFailed, "At most "+strconv.Itoa(c.MaxFocused)+" threads are in focus.")
			}
			seen[id] = true
			*list.to = append(*list.to, id)
		}
	}
	return clean, nil
}

// typing throttles per connection; a stop takes the throttle away (ES-12.1).
func (c Config) typing(s State, now time.Time, op Op, typing *wire.Typing) (State, []Effect) {
	id, ok := env.ParseID(typing.ThreadID)
	switch {
	case !s.Person:
		return s, refuse(op, code.NotImplementedForKind, "Only people type.")
	case !ok:
		return s, refuse(op, code.ValidationFailed, "The thread id is no UUID.")
	case op.Name == wire.OpTypingStop:
		s.Typed = time.Time{}
		return s, nil
	}
	if wait := s.Typed.Add(c.TypingMinInterval).Sub(now); !s.Typed.IsZero() && wait > 0 {
		return s, tooSoon(op, "Typing was said a moment ago.", wait)
	}
	s, effects := c.spend(s, now, op, Type{ThreadID: id, Ref: op.Ref})
	if _, taken := effects[0].(Type); taken {
		s.Typed = now
	}
	return s, effects
}

// Seconds rounds a wait up to whole seconds, as frames and close reasons name it.
func Seconds(wait time.Duration) int64 { return int64((wait + time.Second - 1) / time.Second) }

// Versions are the protocol versions the gateway speaks (ES-6.1).
func Versions() []int { return []int{wire.ProtocolVersion} }
