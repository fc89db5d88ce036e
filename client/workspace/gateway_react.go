package workspace

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cairnsync/cairn/wire/code"
)

// reconnect is what a Gateway remembers between two connections.
type reconnect struct {
	failures int // attempts in a row that did not come to ready or resumed; n of ES-6.5

	session string // of the gateway, "" for none
	window  time.Duration
	lost    time.Time // when its connection ended
}

// move is what to do before the next attempt.
type move int

const (
	moveWait    move = iota // wait, then connect
	moveRenew               // get a new access token, then wait and connect
	moveApprove             // ask for the device until it is active, then connect
	moveErase               // delete local data and end
	moveEnd                 // end
)

// decision is a move, how long to wait, and whether the attempt counts as a failed one.
type decision struct {
	move   move
	wait   time.Duration
	counts bool
	report bool
}

// resumable answers the gateway session that can be resumed at now, "" for none (ES-6.3.7).
func (r *reconnect) resumable(now time.Time) string {
	if r.session == "" || now.Sub(r.lost) >= r.window {
		return ""
	}
	return r.session
}

// established notes that an attempt came to ready or resumed: n starts at 0 again.
func (r *reconnect) established(session string, window time.Duration) {
	r.failures, r.session, r.window = 0, session, window
}

// closedWith answers the close code in err's chain, if the server said one.
func closedWith(err error) (*Closed, bool) { return errors.AsType[*Closed](err) }

// react decides what an end means (ES-6.4, ES-6.5). chance is between 0 and 1. foreground says that somebody
// looks at the app, renewable that there is a sign-in to renew.
func (r *reconnect) react(err error, foreground, renewable bool, chance float64) decision {
	backoff := fullJitter(r.failures, reconnectBase, reconnectCap, chance)
	closed, said := closedWith(err)
	if !said {
		return decision{move: moveWait, wait: stretch(waitOf(err), backoff, chance), counts: true}
	}
	switch closed.Code.React() {
	case code.Stay:
		if closed.Code == code.CloseNormal && foreground {
			return decision{move: moveWait, wait: backoff, counts: true}
		}
		return decision{move: moveEnd}
	case code.Renew:
		if !renewable {
			return decision{move: moveEnd}
		}
		// A token that merely ended costs no wait; one the server does not believe must not make a hot loop.
		if closed.Code == code.CloseTokenExpired && r.failures == 0 {
			return decision{move: moveRenew, counts: true}
		}
		return decision{move: moveRenew, wait: backoff, counts: true}
	case code.Identify:
		r.session = ""
		return decision{move: moveWait, wait: backoff, counts: true}
	case code.Wait:
		return decision{move: moveWait, wait: stretch(secondsIn(closed.Reason), backoff, chance), counts: true}
	case code.Erase:
		return decision{move: moveErase}
	case code.AwaitApproval:
		return decision{move: moveApprove}
	case code.ImmediateResume:
		return decision{move: moveWait, wait: time.Duration(chance * float64(reconnectBase))}
	default:
		return decision{move: moveWait, wait: backoff, counts: true, report: reportable(closed.Code)}
	}
}

// stretch answers the longer of what the server asked for, plus up to a tenth, and the own wait.
func stretch(asked, own time.Duration, chance float64) time.Duration {
	return max(own, asked+time.Duration(chance*float64(asked/10)))
}

// reportable are the closes that speak of a fault of this client.
func reportable(c code.Close) bool {
	switch c {
	case code.CloseUnknownOp, code.CloseDecode, code.CloseNotIdentified, code.CloseAlreadyIdentified:
		return true
	default:
		return false
	}
}

// secondsIn reads the waiting time in the reason of a 4008.
func secondsIn(reason string) time.Duration {
	seconds, err := strconv.ParseUint(strings.TrimSpace(reason), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}
