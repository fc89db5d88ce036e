package workspace

import (
	"encoding/json"
	"time"
)

// The personal objects (ES-14). Each has a version of its own that orders what devices hear of it, and
// names the device that changed it last, so that this one ignores its echo.

// ReadState is how far a person has read a thread. Unread are the messages with a thread_seq above both
// LastReadSeq and the thread's unread floor that are not deleted and not one's own.
type ReadState struct {
	ThreadID          string `json:"thread_id" format:"uuid"`
	LastReadSeq       int64  `json:"last_read_seq"`
	UnreadCount       int64  `json:"unread_count"`
	MentionCount      int64  `json:"mention_count"`
	Version           int64  `json:"version"`
	UpdatedByDeviceID string `json:"updated_by_device_id,omitempty" format:"uuid"`
}

// Draft is text a person has not sent yet. An empty one is deleted.
type Draft struct {
	ThreadID          string    `json:"thread_id" format:"uuid"`
	ContentMD         string    `json:"content_md"`
	FileIDs           []string  `json:"file_ids,omitempty"`
	Version           int64     `json:"version"`
	UpdatedAt         time.Time `json:"updated_at"`
	UpdatedByDeviceID string    `json:"updated_by_device_id,omitempty" format:"uuid"`
	OverwroteNewer    bool      `json:"overwrote_newer,omitempty" doc:"only in the answer to a write whose base_version was old"`
}

// Setting is one value of a person's settings; the server does not know what it means.
type Setting struct {
	Key               string          `json:"key"`
	Value             json.RawMessage `json:"value,omitempty"`
	Deleted           bool            `json:"deleted,omitempty"`
	Version           int64           `json:"version"`
	UpdatedByDeviceID string          `json:"updated_by_device_id,omitempty" format:"uuid"`
}

// Sidebar is how a person arranged a space; the server does not know what State means.
type Sidebar struct {
	SpaceID           string          `json:"space_id" format:"uuid"`
	State             json.RawMessage `json:"state"`
	Version           int64           `json:"version"`
	UpdatedByDeviceID string          `json:"updated_by_device_id,omitempty" format:"uuid"`
}

// NotificationPref is what a person wants to be told about a space, channel or thread.
type NotificationPref struct {
	Kind              string     `json:"kind" enum:"space,channel,thread"`
	ID                string     `json:"id" format:"uuid"`
	Level             string     `json:"level" enum:"all,mentions,none"`
	MutedUntil        *time.Time `json:"muted_until,omitempty"`
	Version           int64      `json:"version"`
	UpdatedByDeviceID string     `json:"updated_by_device_id,omitempty" format:"uuid"`
}

// QuietHours is when a person does not want to be told.
type QuietHours struct {
	Timezone          string   `json:"timezone" doc:"of the IANA database"`
	Days              []string `json:"days" doc:"mon to sun"`
	From              string   `json:"from" doc:"HH:MM"`
	To                string   `json:"to" doc:"HH:MM; before from: on the next day"`
	Version           int64    `json:"version"`
	UpdatedByDeviceID string   `json:"updated_by_device_id,omitempty" format:"uuid"`
}

// Snapshot is what a client starts from, all of it as of HeadSeq (workspace specification, section 4).
// Threads and messages are not in it: they are loaded when needed.
type Snapshot struct {
	HeadSeq           int64             `json:"head_seq"`
	SyncEpoch         string            `json:"sync_epoch" format:"uuid"`
	PermissionVersion int64             `json:"permission_version"`
	Principal         Principal         `json:"principal"`
	Access            []Access          `json:"access" doc:"the caller's own levels, on everything it sees"`
	Spaces            []Space           `json:"spaces"`
	Channels          []Channel         `json:"channels"`
	Sidebar           []Sidebar         `json:"sidebar"`
	ReadStates        []ReadState       `json:"read_states" doc:"of threads with unread messages only"`
	Runs              []json.RawMessage `json:"runs"`
	Agents            []Principal       `json:"agents" doc:"the agents the caller sees"`
	SettingsVersions  map[string]int64  `json:"settings_versions"`
	DraftVersions     map[string]int64  `json:"draft_versions"`
	FeatureFlags      map[string]bool   `json:"feature_flags"`
}
