// Package sessions holds the public objects of Shared Sessions v1 (the surface under /v1).
//
// Types only, no behaviour beyond their JSON form. Fields are always present in JSON and null when
// they have no value, except the ones marked omitzero, which the protocol shows only in some places
// (shared sessions specification, section 2).
package sessions

import (
	"encoding/json"
	"fmt"
	"time"
)

// Role is what a user may do with a session: viewer < editor < owner (SS-ROLE-3).
type Role string

// The roles, and "" for none.
const (
	RoleNone   Role = ""
	RoleViewer Role = "viewer"
	RoleEditor Role = "editor"
	RoleOwner  Role = "owner"
)

// Rank orders roles; none is 0.
func (r Role) Rank() int {
	switch r {
	case RoleViewer:
		return 1
	case RoleEditor:
		return 2
	case RoleOwner:
		return 3
	default:
		return 0
	}
}

// Time is a moment, in JSON an ISO-8601 UTC string with milliseconds and Z (SS-HTTP-1).
type Time struct{ time.Time }

// TimeLayout is the wire form of a Time.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// String answers the wire form.
func (t Time) String() string { return t.UTC().Format(TimeLayout) }

// MarshalJSON writes the wire form.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads any RFC 3339 time.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	t.Time = parsed.UTC()
	return nil
}

// Session is one shared agent session.
type Session struct {
	ID               string  `json:"id"`
	SessionKey       string  `json:"session_key"`
	OwnerUserID      string  `json:"owner_user_id"`
	Title            *string `json:"title"`
	CreatedAt        Time    `json:"created_at"`
	LastEventAt      Time    `json:"last_event_at"` // moves on every stored event (SS-OBJ-3)
	LastSeq          int64   `json:"last_seq"`
	ExecutorDeviceID *string `json:"executor_device_id"` // holder of the live lease (SS-LEASE-5)
	LeaseExpiresAt   *Time   `json:"lease_expires_at"`
	E2E              bool    `json:"e2e"`
	Archived         bool    `json:"archived"`
}

// ListedSession is a Session in a list of the caller's (SS-SES-2).
type ListedSession struct {
	Session
	Role          Role `json:"role"`
	PresenceCount int  `json:"presence_count"`
}

// SharedSession is a Session somebody shared with the caller (SS-SES-3).
type SharedSession struct {
	Session
	Role    Role   `json:"role"`
	ShareID string `json:"share_id"`
}

// SessionDetail is a Session with everything about who takes part (SS-SES-4).
type SessionDetail struct {
	Session
	Role     Role       `json:"role"`
	Members  []Member   `json:"members"`
	Lease    *Lease     `json:"lease"`
	Presence []Presence `json:"presence"`
	Notify   Notify     `json:"notify"` // the caller's own; an extension of ours
}

// Member is a user who can see a session.
type Member struct {
	UserID  string         `json:"user_id"`
	Role    Role           `json:"role"`
	Remote  bool           `json:"remote"` // not the calling user
	Devices []MemberDevice `json:"devices"`
}

// MemberDevice is a device of a Member.
type MemberDevice struct {
	DeviceID   string   `json:"device_id"`
	Name       string   `json:"name"`
	Platform   Platform `json:"platform"`
	LastSeenAt Time     `json:"last_seen_at"`
	Remote     bool     `json:"remote"` // not the calling device
	// Recipient is the age X25519 recipient (age1…, 62 characters) that the device publishes in its capabilities; an
	// extension of ours. It has the form of one; nobody has tried to decode it.
	Recipient string `json:"recipient,omitempty"`
}

// Platform is the kind of a device; anything unknown is stored as PlatformAgent (SS-DEV-0).
type Platform string

// The platforms.
const (
	PlatformAndroid Platform = "android"
	PlatformIOS     Platform = "ios"
	PlatformWeb     Platform = "web"
	PlatformDesktop Platform = "desktop"
	PlatformCLI     Platform = "cli"
	PlatformAgent   Platform = "agent"
)

// Device is one install of a client. Its push token is never shown.
type Device struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Platform     Platform `json:"platform"`
	Capabilities []string `json:"capabilities"`
	HasPushToken bool     `json:"has_push_token"`
	LastSeenAt   Time     `json:"lastSeenAt"`
	CreatedAt    Time     `json:"createdAt"`
	Online       *bool    `json:"online,omitempty"` // GET /v1/devices only (SS-DVC-1)
}

// Event is one entry of a session's log. Seq is dense and starts at 1 (SS-EVT-2).
type Event struct {
	Seq            int64   `json:"seq"`
	Kind           string  `json:"kind"`
	TS             int64   `json:"ts"` // milliseconds since the Unix epoch, the client's clock
	SenderDeviceID string  `json:"sender_device_id"`
	TurnID         *string `json:"turn_id"`
	ClientEventID  *string `json:"client_event_id"`
	// Payload is a JSON object whose bytes are never re-encoded by the server (SS-OBJ-1).
	Payload json.RawMessage `json:"payload"`
}

// Kinds of event the server emits.
const (
	KindControl          = "control"
	KindLeaseTransferred = "lease_transferred"
)

// ControlKind says what a control asks of the executor (SS-CTL-3).
type ControlKind string

// The kinds of control.
const (
	ControlSend    ControlKind = "send"
	ControlAnswer  ControlKind = "answer"
	ControlApprove ControlKind = "approve"
	ControlDeny    ControlKind = "deny"
	ControlCancel  ControlKind = "cancel"
	ControlSteer   ControlKind = "steer"
	ControlInject  ControlKind = "inject"
	ControlPause   ControlKind = "pause"
	ControlResume  ControlKind = "resume"
)

// ControlKinds lists every kind of control.
func ControlKinds() []ControlKind {
	return []ControlKind{
		ControlSend, ControlAnswer, ControlApprove, ControlDeny, ControlCancel,
		ControlSteer, ControlInject, ControlPause, ControlResume,
	}
}

// Mode is how a dispatch is meant (SS-DSP-2).
type Mode string

// The modes of a dispatch.
const (
	ModeSend Mode = "send"
	ModeOpen Mode = "open"
)

// Control is an editor's wish to the executor. ID is the client's idempotency key.
type Control struct {
	ID             string      `json:"id"`
	Kind           ControlKind `json:"kind"`
	Text           *string     `json:"text"`
	TurnID         *string     `json:"turn_id"`
	AskID          *string     `json:"ask_id"`
	FromDeviceID   string      `json:"from_device_id"`
	TargetDeviceID *string     `json:"target_device_id"`
	Seq            int64       `json:"seq"` // seq of its echo event
	Applied        bool        `json:"applied"`
	CreatedAt      Time        `json:"created_at"`
	Mode           Mode        `json:"mode,omitempty"` // "open" handoffs only
}

// Lease is the right of one device to execute a session for a term.
type Lease struct {
	SessionID string `json:"session_id"`
	DeviceID  string `json:"device_id"`
	ExpiresAt Time   `json:"expires_at"`
}

// Presence is a device that has a session open now (SS-PRS-1).
type Presence struct {
	DeviceID string `json:"device_id"`
	UserID   string `json:"user_id"`
	Role     Role   `json:"role"`
	Executor bool   `json:"executor"`
	Driving  bool   `json:"driving"`
	// Attention says that a person looks at the session on this device now. It is an extension of ours, false on a
	// server that does not know it; while it is true nobody is pushed to on behalf of that person.
	Attention bool  `json:"attention"`
	LastSeen  int64 `json:"last_seen"`        // milliseconds since the Unix epoch
	Online    *bool `json:"online,omitempty"` // frames only
	Remote    *bool `json:"remote,omitempty"` // session detail only
}

// PrincipalType is what a share is given to.
type PrincipalType string

// The kinds of principal.
const (
	PrincipalUser PrincipalType = "user"
	PrincipalOrg  PrincipalType = "org"
	PrincipalLink PrincipalType = "link"
)

// Share gives a role on a session to a user, an org or whoever holds a link (SS-SHR-1).
type Share struct {
	ID              string        `json:"id"`
	SessionID       string        `json:"session_id"`
	PrincipalType   PrincipalType `json:"principal_type"`
	PrincipalID     *string       `json:"principal_id"`
	Role            Role          `json:"role"`
	HasToken        bool          `json:"has_token"`
	ExpiresAt       *Time         `json:"expires_at"`
	CreatedByUserID string        `json:"created_by_user_id"`
	CreatedAt       Time          `json:"created_at"`
	Token           string        `json:"token,omitempty"` // shown once, when a link share is made
}

// OrgRole is a member's standing in an organisation.
type OrgRole string

// The roles in an organisation.
const (
	OrgOwner  OrgRole = "owner"
	OrgAdmin  OrgRole = "admin"
	OrgMember OrgRole = "member"
)

// Org is an organisation (SS-ORG-1).
type Org struct {
	ID          string  `json:"id"`
	Name        string  `json:"name"`
	OwnerUserID string  `json:"ownerUserId"`
	CreatedAt   Time    `json:"createdAt"`
	Role        OrgRole `json:"role,omitempty"` // the caller's, where the route shows it
}

// Membership is a user's place in an organisation.
type Membership struct {
	UserID    string  `json:"user_id"`
	Email     *string `json:"email"`
	Role      OrgRole `json:"role"`
	CreatedAt Time    `json:"created_at"`
}

// AuditEntry is one line of a session's audit (SS-AUD-1).
type AuditEntry struct {
	ID        string          `json:"id"`
	At        Time            `json:"at"`
	UserID    string          `json:"user_id"`
	DeviceID  *string         `json:"device_id"`
	Action    string          `json:"action"`
	SessionID *string         `json:"session_id"`
	OrgID     *string         `json:"org_id"`
	Detail    json.RawMessage `json:"detail"`
}

// Error is the body of every answer that is not a success (SS-ERR-1).
type Error struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody is what went wrong.
type ErrorBody struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Code    string          `json:"code"`
	Details json.RawMessage `json:"details,omitempty"`
}

// FieldErrors is the `details` of bad_request (SS-HTTP-4).
type FieldErrors struct {
	FormErrors  []string            `json:"formErrors"`
	FieldErrors map[string][]string `json:"fieldErrors"`
}
