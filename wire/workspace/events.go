package workspace

import (
	"encoding/json"
	"time"
)

// Envelope is every event, on the gateway, in REST and in webhooks (ES-2.2).
type Envelope struct {
	ID                string          `json:"id" format:"uuid" doc:"by which receivers drop duplicates"`
	Seq               int64           `json:"seq,omitempty" doc:"place in the log; ephemeral events have none"`
	Type              string          `json:"type"`
	SchemaVersion     int             `json:"schema_version"`
	OccurredAt        time.Time       `json:"occurred_at" doc:"for display; it orders nothing"`
	Actor             *Actor          `json:"actor,omitempty"`
	Scope             Scope           `json:"scope"`
	Resource          Resource        `json:"resource"`
	Audience          string          `json:"audience,omitempty" enum:"self" doc:"set on personal events"`
	Payload           json.RawMessage `json:"payload"`
	Redacted          bool            `json:"redacted,omitempty" doc:"the content was deleted"`
	Truncated         bool            `json:"truncated,omitempty" doc:"load the object by REST"`
	CorrelationID     string          `json:"correlation_id,omitempty" format:"uuid"`
	TraceContext      string          `json:"trace_context,omitempty" doc:"only to agents"`
	ClientMsgID       string          `json:"client_msg_id,omitempty" format:"uuid"`
	PermissionVersion int64           `json:"permission_version,omitempty"`
	InvocationToken   string          `json:"invocation_token,omitempty" doc:"only to agents"`
	Redelivered       bool            `json:"redelivered,omitempty" doc:"only to agents"`
	SyncEpoch         string          `json:"sync_epoch,omitempty" format:"uuid" doc:"only to webhooks"`
}

// AudienceSelf marks a personal event.
const AudienceSelf = "self"

// Actor is who triggered an event; System has no id.
type Actor struct {
	ID   string `json:"id,omitempty" format:"uuid"`
	Kind Kind   `json:"kind" enum:"user,agent,app,system"`
}

// Scope is where an event happened.
type Scope struct {
	SpaceID   string `json:"space_id,omitempty" format:"uuid"`
	ChannelID string `json:"channel_id,omitempty" format:"uuid"`
	ThreadID  string `json:"thread_id,omitempty" format:"uuid"`
}

// Resource is what an event is about. Version is there exactly when the event reports a new version of
// that object (ES-9.3).
type Resource struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Version int64  `json:"version,omitempty"`
}

// The payloads of the events, by type.
type (
	// MessageEvent is of message.created, message.updated and message.deleted. The message is without Me.
	MessageEvent struct {
		Message Message       `json:"message"`
		Thread  ThreadSummary `json:"thread"`
	}
	// ReactionEvent is of reaction.added and reaction.removed; Count is absolute.
	ReactionEvent struct {
		MessageID   string `json:"message_id" format:"uuid"`
		ThreadID    string `json:"thread_id" format:"uuid"`
		Emoji       string `json:"emoji"`
		PrincipalID string `json:"principal_id" format:"uuid"`
		Count       int64  `json:"count"`
	}
	// PinEvent is of pin.added and pin.removed.
	PinEvent struct {
		MessageID string `json:"message_id" format:"uuid"`
		ThreadID  string `json:"thread_id" format:"uuid"`
		Pinned    bool   `json:"pinned"`
	}
	// ThreadEvent is of thread.created, updated, closed, reopened and moved.
	ThreadEvent struct {
		Thread Thread `json:"thread"`
	}
	// ThreadMovedOut tells those who do not see where a thread went that it left this channel.
	ThreadMovedOut struct {
		ThreadID  string `json:"thread_id" format:"uuid"`
		ChannelID string `json:"channel_id" format:"uuid" doc:"the channel it left"`
	}
	// ChannelEvent is of channel.created, updated, archived and unarchived.
	ChannelEvent struct {
		Channel Channel `json:"channel"`
	}
	// ChannelSettingsChanged names the new version; who manages the channel loads the rest.
	ChannelSettingsChanged struct {
		ChannelID       string `json:"channel_id" format:"uuid"`
		SettingsVersion int64  `json:"settings_version"`
	}
	// SpaceEvent is of space.created, updated, archived and unarchived.
	SpaceEvent struct {
		Space Space `json:"space"`
	}
	// PrincipalEvent is of principal.updated.
	PrincipalEvent struct {
		Principal Principal `json:"principal"`
	}
	// DeviceEvent is of device.updated: a device was added, asks for approval, was approved or revoked.
	DeviceEvent struct {
		Device Device `json:"device"`
	}
	// FileEvent is of file.updated.
	FileEvent struct {
		File File `json:"file"`
	}
	// ImportProgress is of import.progress, after each batch (ES-15.8).
	ImportProgress struct {
		ImportID string `json:"import_id" format:"uuid"`
		State    string `json:"state" enum:"running,done"`
		Threads  int64  `json:"threads"`
		Messages int64  `json:"messages"`
	}
	// AccessChanged is what changed about what a principal sees (ES-8.2).
	AccessChanged struct {
		PermissionVersion int64    `json:"permission_version"`
		Added             []Access `json:"added,omitempty"`
		Removed           []Access `json:"removed,omitempty"`
		Changed           []Access `json:"changed,omitempty"`
	}
	// AccessExpiring announces the end of grants and memberships, once.
	AccessExpiring struct {
		Targets   []Access  `json:"targets"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	// ReadStateEvent is of read_state.updated.
	ReadStateEvent struct {
		ReadState ReadState `json:"read_state"`
	}
	// DraftEvent is of draft.updated.
	DraftEvent struct {
		Draft Draft `json:"draft"`
	}
	// DraftDeleted is of draft.deleted.
	DraftDeleted struct {
		ThreadID          string `json:"thread_id" format:"uuid"`
		Version           int64  `json:"version"`
		UpdatedByDeviceID string `json:"updated_by_device_id,omitempty" format:"uuid"`
	}
	// SettingEvent is of settings.updated.
	SettingEvent struct {
		Setting Setting `json:"setting"`
	}
	// SidebarEvent is of sidebar.updated.
	SidebarEvent struct {
		Sidebar Sidebar `json:"sidebar"`
	}
	// NotificationPrefEvent is of notification_pref.updated.
	NotificationPrefEvent struct {
		NotificationPref NotificationPref `json:"notification_pref"`
	}
	// QuietHoursEvent is of quiet_hours.updated.
	QuietHoursEvent struct {
		QuietHours QuietHours `json:"quiet_hours"`
	}
	// TypingStarted is of typing.started, ephemeral (ES-12.1).
	TypingStarted struct {
		ThreadID    string    `json:"thread_id" format:"uuid"`
		PrincipalID string    `json:"principal_id" format:"uuid"`
		ExpiresAt   time.Time `json:"expires_at"`
	}
)
