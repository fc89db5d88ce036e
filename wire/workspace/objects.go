package workspace

import (
	"encoding/json"
	"time"
)

// Kind is what a principal is.
type Kind string

// The kinds of principals. System is only an actor: something the server did by itself.
const (
	KindUser   Kind = "user"
	KindAgent  Kind = "agent"
	KindApp    Kind = "app"
	KindSystem Kind = "system"
)

// Status is whether a principal may act.
type Status string

// The states of a principal.
const (
	StatusActive   Status = "active"
	StatusPending  Status = "pending"
	StatusDisabled Status = "disabled"
)

// Principal is somebody who acts: a person, an agent or an app.
type Principal struct {
	ID          string `json:"id" format:"uuid"`
	Kind        Kind   `json:"kind" enum:"user,agent,app"`
	Handle      string `json:"handle" doc:"unique; what follows the @ of a mention"`
	DisplayName string `json:"display_name"`
	Status      Status `json:"status" enum:"active,pending,disabled"`
	Version     int64  `json:"version"`
}

// Author names the principal behind a message.
type Author struct {
	ID   string `json:"id" format:"uuid"`
	Kind Kind   `json:"kind" enum:"user,agent,app,system"`
}

// DeviceState is whether a device may sign in (WS-ID-3).
type DeviceState string

// The states of a device.
const (
	DevicePending DeviceState = "pending"
	DeviceActive  DeviceState = "active"
	DeviceRevoked DeviceState = "revoked"
)

// Device is one installation a person uses, the same on both surfaces.
type Device struct {
	ID         string      `json:"id" format:"uuid"`
	UserID     string      `json:"user_id" format:"uuid"`
	Name       string      `json:"name"`
	Platform   string      `json:"platform"`
	State      DeviceState `json:"state" enum:"pending,active,revoked"`
	DPoPJKT    string      `json:"dpop_jkt,omitempty" doc:"thumbprint (RFC 7638) of the key the device proves itself with"`
	CreatedAt  time.Time   `json:"created_at"`
	LastSeenAt time.Time   `json:"last_seen_at"`
}

// Group is a named set of principals that grants may name.
type Group struct {
	ID      string        `json:"id" format:"uuid"`
	Name    string        `json:"name"`
	Members []GroupMember `json:"members"`
	Version int64         `json:"version"`
}

// GroupMember is a principal in a group, until ExpiresAt if there is one.
type GroupMember struct {
	PrincipalID string     `json:"principal_id" format:"uuid"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
}

// Level is what a principal may do on a target; each includes those before it (WS-AZ-1).
type Level string

// The levels, and "" for none.
const (
	LevelNone    Level = ""
	LevelRead    Level = "read"
	LevelWrite   Level = "write"
	LevelTrigger Level = "trigger"
	LevelManage  Level = "manage"
	LevelOwner   Level = "owner"
)

// Rank orders the levels; none, and what is no level, is 0.
func (l Level) Rank() int {
	switch l {
	case LevelRead:
		return 1
	case LevelWrite:
		return 2
	case LevelTrigger:
		return 3
	case LevelManage:
		return 4
	case LevelOwner:
		return 5
	default:
		return 0
	}
}

// TargetKind is what a grant is on.
type TargetKind string

// The targets of grants.
const (
	TargetInstance TargetKind = "instance"
	TargetSpace    TargetKind = "space"
	TargetChannel  TargetKind = "channel"
	TargetHost     TargetKind = "host"
)

// Subject is who a grant is for.
type Subject struct {
	Kind string `json:"kind" enum:"principal,group"`
	ID   string `json:"id" format:"uuid"`
}

// The kinds of subjects.
const (
	SubjectPrincipal = "principal"
	SubjectGroup     = "group"
)

// Target is what a grant is on. The instance has no id.
type Target struct {
	Kind TargetKind `json:"kind" enum:"instance,space,channel,host"`
	ID   string     `json:"id,omitempty" format:"uuid"`
}

// Grant gives a subject a level on a target.
type Grant struct {
	ID           string     `json:"id" format:"uuid"`
	Subject      Subject    `json:"subject"`
	Target       Target     `json:"target"`
	Level        Level      `json:"level,omitempty" enum:"read,write,trigger,manage,owner"`
	Capabilities []string   `json:"capabilities,omitempty" doc:"terminal, on hosts only"`
	CreatedAt    time.Time  `json:"created_at"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
}

// Space is a set of channels.
type Space struct {
	ID              string     `json:"id" format:"uuid"`
	Name            string     `json:"name"`
	ArchivedAt      *time.Time `json:"archived_at,omitempty"`
	OperatorAgentID string     `json:"operator_agent_id,omitempty" format:"uuid"`
	CreatedAt       time.Time  `json:"created_at"`
	Version         int64      `json:"version"`
}

// ChannelKind is how a channel is organised.
type ChannelKind string

// The kinds of channels: a text channel has one main timeline and threads beside it, a forum has only posts.
const (
	ChannelText  ChannelKind = "text"
	ChannelForum ChannelKind = "forum"
)

// Channel is a place for threads.
type Channel struct {
	ID              string      `json:"id" format:"uuid"`
	SpaceID         string      `json:"space_id" format:"uuid"`
	Kind            ChannelKind `json:"kind" enum:"text,forum"`
	Name            string      `json:"name"`
	Topic           string      `json:"topic,omitempty"`
	ReadOnly        bool        `json:"read_only"`
	ArchivedAt      *time.Time  `json:"archived_at,omitempty"`
	MainThreadID    string      `json:"main_thread_id,omitempty" format:"uuid" doc:"of a text channel"`
	CreatedAt       time.Time   `json:"created_at"`
	Version         int64       `json:"version"`
	SettingsVersion int64       `json:"settings_version"`
}

// ChannelSettings is what only those who manage a channel see; events name its version only (ES-2.2).
type ChannelSettings struct {
	ChannelID       string          `json:"channel_id" format:"uuid"`
	Prompt          string          `json:"prompt,omitempty" maxLength:"20000"`
	Agents          []ChannelAgent  `json:"agents,omitempty" maxItems:"100"`
	BackendPolicy   json.RawMessage `json:"backend_policy,omitempty"`
	SettingsVersion int64           `json:"settings_version"`
}

// ChannelAgent says how an agent behaves in a channel (WS-AG-1).
type ChannelAgent struct {
	AgentID string `json:"agent_id" format:"uuid"`
	Respond string `json:"respond" enum:"mention,always,off"`
}

// ThreadKind is what a thread is in its channel.
type ThreadKind string

// The kinds of threads.
const (
	ThreadMain   ThreadKind = "main"   // the timeline of a text channel, made with it
	ThreadThread ThreadKind = "thread" // beside the timeline
	ThreadPost   ThreadKind = "post"   // of a forum
)

// ThreadState is whether a thread is done.
type ThreadState string

// The states of a thread.
const (
	ThreadOpen ThreadState = "open"
	ThreadDone ThreadState = "done"
)

// Thread is a gapless sequence of messages (ES-4).
type Thread struct {
	ID             string      `json:"id" format:"uuid"`
	ChannelID      string      `json:"channel_id" format:"uuid"`
	Kind           ThreadKind  `json:"kind" enum:"main,thread,post"`
	Title          string      `json:"title,omitempty"`
	State          ThreadState `json:"state" enum:"open,done"`
	LastMessageSeq int64       `json:"last_message_seq"`
	MessageCount   int64       `json:"message_count" doc:"messages that are not deleted"`
	LastActivityAt time.Time   `json:"last_activity_at"`
	UnreadFloorSeq int64       `json:"unread_floor_seq" doc:"messages up to it count as unread for nobody"`
	CreatedAt      time.Time   `json:"created_at"`
	Version        int64       `json:"version"`
}

// ThreadSummary is what an event of a message says about its thread.
type ThreadSummary struct {
	ID             string      `json:"id" format:"uuid"`
	Version        int64       `json:"version"`
	State          ThreadState `json:"state" enum:"open,done"`
	LastMessageSeq int64       `json:"last_message_seq"`
	MessageCount   int64       `json:"message_count"`
	LastActivityAt time.Time   `json:"last_activity_at"`
}

// Message is one message of a thread. A deleted one stays as a tombstone: no content, empty lists, and
// DeletedAt; its ThreadSeq remains (ES-4).
type Message struct {
	ID                 string            `json:"id" format:"uuid"`
	ThreadID           string            `json:"thread_id" format:"uuid"`
	ChannelID          string            `json:"channel_id" format:"uuid"`
	ThreadSeq          int64             `json:"thread_seq"`
	Author             Author            `json:"author"`
	ClientMsgID        string            `json:"client_msg_id,omitempty" format:"uuid"`
	Origin             string            `json:"origin" enum:"human,agent,import"`
	Kind               string            `json:"kind" enum:"text,voice,system"`
	ContentMD          string            `json:"content_md"`
	ReplyToID          string            `json:"reply_to_id,omitempty" format:"uuid"`
	Attachments        []File            `json:"attachments"`
	MentionIDs         []string          `json:"mention_ids" doc:"principals, computed by the server"`
	Components         []json.RawMessage `json:"components"`
	Reactions          []Reaction        `json:"reactions"`
	Pinned             bool              `json:"pinned"`
	TriggerState       string            `json:"trigger_state,omitempty"`
	TriggerStateReason string            `json:"trigger_state_reason,omitempty"`
	CreatedAt          time.Time         `json:"created_at"`
	EditedAt           *time.Time        `json:"edited_at,omitempty"`
	DeletedAt          *time.Time        `json:"deleted_at,omitempty"`
	Version            int64             `json:"version"`
}

// The origins of a message.
const (
	OriginHuman  = "human"
	OriginAgent  = "agent"
	OriginImport = "import"
)

// Reaction is how many reacted to a message with one emoji. Me, whether the caller did, is only in
// answers of REST, never in events.
type Reaction struct {
	Emoji string `json:"emoji"`
	Count int64  `json:"count"`
	Me    bool   `json:"me,omitempty"`
}

// Revision is an earlier or the current wording of a message.
type Revision struct {
	Version   int64     `json:"version"`
	ContentMD string    `json:"content_md"`
	At        time.Time `json:"at"`
}

// File is an uploaded file. Its bytes are served only when ScanStatus is clean or skipped.
type File struct {
	ID               string            `json:"id" format:"uuid"`
	UploadedBy       string            `json:"uploaded_by" format:"uuid"`
	Purpose          string            `json:"purpose" enum:"attachment"`
	UploadState      string            `json:"upload_state" enum:"pending,complete"`
	ScanStatus       string            `json:"scan_status" enum:"pending,clean,infected,skipped"`
	TranscriptStatus string            `json:"transcript_status" enum:"none,pending,done,failed"`
	OriginalName     string            `json:"original_name"`
	SizeBytes        int64             `json:"size_bytes"`
	MimeType         string            `json:"mime_type"`
	SHA256           string            `json:"sha256,omitempty"`
	Thumbnails       []json.RawMessage `json:"thumbnails"`
	CreatedAt        time.Time         `json:"created_at"`
	DeletedAt        *time.Time        `json:"deleted_at,omitempty"`
	Version          int64             `json:"version"`
}

// Access is a target a principal sees, with its level there (ES-8.2).
type Access struct {
	Kind          TargetKind `json:"kind" enum:"instance,space,channel,host"`
	ID            string     `json:"id,omitempty" format:"uuid"`
	Level         Level      `json:"level,omitempty" enum:"read,write,trigger,manage,owner"`
	PreviousLevel Level      `json:"previous_level,omitempty" enum:"read,write,trigger,manage,owner"`
	Capabilities  []string   `json:"capabilities,omitempty"`
}
