package sessions

// Notify is what a person wants to be pushed about in one session.
type Notify string

// The levels. NotifyAll is what holds for who never chose one.
const (
	NotifyAll  Notify = "all"  // asks and the ends of turns
	NotifyAsks Notify = "asks" // asks only
	NotifyNone Notify = "none" // nothing
)

// Wants reports whether the level lets a push of a type through. A dispatch is for a device, not for a person: it
// always goes through.
func (n Notify) Wants(t PushType) bool {
	switch t {
	case PushAsk:
		return n != NotifyNone
	case PushTurnEnd:
		return n != NotifyNone && n != NotifyAsks
	default:
		return true
	}
}

// NotifySetting answers a change of the caller's Notify in one session.
type NotifySetting struct {
	SessionID string `json:"session_id"`
	Notify    Notify `json:"notify"`
}

// PushType is what a push tells a device of: the `type` of its data.
type PushType string

// The types of push. Those to people are called like the event they tell of.
const (
	PushDispatch PushType = "dispatch" // a control waits for the device (SS-DSP-3)
	PushAsk      PushType = "ask"      // the executor asks something
	PushTurnEnd  PushType = "turn_end" // a turn ended
)

// Kinds of event that people are pushed about. The server reads nothing else of them.
const (
	KindAsk     = string(PushAsk)
	KindTurnEnd = string(PushTurnEnd)
)

// PushState is how far a push is.
type PushState string

// The states.
const (
	PushWaiting PushState = "waiting" // for its first attempt, the end of a pause, or another attempt
	PushSent    PushState = "sent"    // the push service took it
	PushFailed  PushState = "failed"  // the push service did not take it, and it is not tried again
	PushSkipped PushState = "skipped" // it was not to be sent, or not any more
)

// Why a push was skipped; the other reasons are SS-DSP-3's.
const (
	PushAttention PushReason = "attention" // the person looks at the session on one of their devices
	PushNotify    PushReason = "notify"    // the person does not want it
	PushNoAccess  PushReason = "no_access" // the person is no editor any more, or the device or user is gone
	PushReplaced  PushReason = "replaced"  // another push of the same session to the same device says enough
)

// Push is one push of a session to one device, and what became of it.
type Push struct {
	ID        string     `json:"id"`
	Type      PushType   `json:"type"`
	DeviceID  string     `json:"device_id"`
	UserID    string     `json:"user_id"`
	ControlID *string    `json:"control_id,omitempty"` // of a dispatch
	Seq       *int64     `json:"seq,omitempty"`        // of the event that people are told of
	State     PushState  `json:"state"`
	Reason    PushReason `json:"reason,omitempty"` // of waiting: why the last attempt failed
	Attempts  int64      `json:"attempts"`
	CreatedAt Time       `json:"created_at"`
	UpdatedAt Time       `json:"updated_at"`
}

// MaxPushes is how many pushes of a session are remembered, the newest ones.
const MaxPushes = 200
