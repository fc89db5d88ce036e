package sessions

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxStrikes is how often in a row a stream may break at one place before the Viewer gives up.
const maxStrikes = 5

// position is where a Viewer stands in the log. It proves that no event is missing or repeated.
type position struct {
	last    int64 // seq of the last event handed out
	strikes int   // breaks since the last one
}

// verdict is what to do with an event.
type verdict int

const (
	deliver   verdict = iota // it is the next one
	duplicate                // it was handed out before
	hole                     // one before it is missing
)

// judge says what to do with the event seq.
func (p position) judge(seq int64) verdict {
	switch {
	case seq == p.last+1:
		return deliver
	case seq <= p.last:
		return duplicate
	default:
		return hole
	}
}

func (p position) advanced() position { return position{last: p.last + 1} }
func (p position) struck() position   { return position{last: p.last, strikes: p.strikes + 1} }
func (p position) broken() bool       { return p.strikes >= maxStrikes }

// errReset leaves a connection that was opened with a cursor the server does not have.
var errReset = errors.New("server has less than the cursor")

// frame takes one frame of the server. Names that are not known are ignored (SS-CON-1).
func (r *viewing) frame(name string, data []byte) error {
	switch name {
	case wire.FrameEvent:
		return r.event(data)
	case wire.FrameControl:
		return handDecoded[ControlFrame](r, name, data)
	case wire.FrameLease:
		return handDecoded[LeaseFrame](r, name, data)
	case wire.FramePresence:
		return handDecoded[PresenceFrame](r, name, data)
	case wire.FrameReset:
		return r.reset(data)
	case wire.FrameClosed:
		return r.closed(data)
	default:
		return nil
	}
}

func handDecoded[F Frame](r *viewing, name string, data []byte) error {
	var frame F
	if err := json.Unmarshal(data, &frame); err != nil {
		return r.unreadable(name, err)
	}
	return r.hand(frame)
}

func (r *viewing) event(data []byte) error {
	var frame EventFrame
	if err := json.Unmarshal(data, &frame.Event); err != nil {
		return r.unreadable(wire.FrameEvent, err)
	}
	switch r.position.judge(frame.Seq) {
	case duplicate:
		r.viewer.stats.duplicates.Add(1)
		return nil
	case hole:
		r.viewer.stats.holes.Add(1)
		r.position = r.position.struck()
		return fmt.Errorf("got event %d after event %d", frame.Seq, r.position.last)
	case deliver:
	}
	r.viewer.opener.open(&frame)
	if err := r.hand(frame); err != nil {
		return err
	}
	r.position = r.position.advanced()
	r.viewer.last.Store(r.position.last)
	return nil
}

// reset starts again at 0. The connection is left unless it started there: what a server sends after a
// reset on the same connection is not needed then.
func (r *viewing) reset(data []byte) error {
	var frame ResetFrame
	if err := json.Unmarshal(data, &frame); err != nil {
		return r.unreadable(wire.FrameReset, err)
	}
	if r.position.last == 0 {
		return nil
	}
	r.viewer.stats.resets.Add(1)
	r.position = position{}
	r.viewer.last.Store(0)
	if err := r.hand(frame); err != nil {
		return err
	}
	r.rewound = true
	return errReset
}

func (r *viewing) closed(data []byte) error {
	var frame struct {
		Code   code.Close `json:"code"`
		Reason string     `json:"reason"`
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		return r.unreadable(wire.FrameClosed, err)
	}
	return &ClosedError{Code: frame.Code, Reason: frame.Reason}
}

func (r *viewing) unreadable(name string, err error) error {
	r.position = r.position.struck()
	return fmt.Errorf("decode %s frame: %w", name, err)
}

func (r *viewing) strikeIfUnreadable(err error) {
	if errors.Is(err, ErrFrameTooLarge) {
		r.position = r.position.struck()
	}
}
