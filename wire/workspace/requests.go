package workspace

import (
	"encoding/json"
	"time"
)

// Headers of the Workspace surface.
const (
	HeaderDPoP             = "DPoP"
	HeaderDPoPNonce        = "DPoP-Nonce"
	HeaderIdempotencyKey   = "Idempotency-Key"
	HeaderIdempotentReplay = "Idempotent-Replay"
	HeaderTrace            = "X-Trace-Id"
)

// Discovery is GET /api/v1: what a client needs to know before it signs in.
type Discovery struct {
	InstanceID       string   `json:"instance_id" format:"uuid"`
	Name             string   `json:"name"`
	Version          string   `json:"version"`
	ProtocolVersions []int    `json:"protocol_versions"`
	SyncEpoch        string   `json:"sync_epoch" format:"uuid"`
	GatewayPath      string   `json:"gateway_path"`
	GrantTypes       []string `json:"grant_types"`
	OIDCIssuer       string   `json:"oidc_issuer,omitempty"`
	OIDCClientID     string   `json:"oidc_client_id,omitempty"`
	DPoPAlgorithms   []string `json:"dpop_algorithms"`
}

// The grants of POST auth/token (WS-ID-1).
const (
	GrantPassword     = "password"
	GrantLoginCode    = "login_code"
	GrantOIDCCode     = "oidc_code"
	GrantRefreshToken = "refresh_token"
)

// TokenRequest signs in, refreshes, or with SessionID steps up (WS-ID-1, WS-ID-5).
type TokenRequest struct {
	GrantType    string         `json:"grant_type" enum:"password,login_code,oidc_code,refresh_token"`
	Username     string         `json:"username,omitempty" maxLength:"254"`
	Password     string         `json:"password,omitempty" maxLength:"1024"`
	Code         string         `json:"code,omitempty" maxLength:"4096"`
	CodeVerifier string         `json:"code_verifier,omitempty" maxLength:"128"`
	RedirectURI  string         `json:"redirect_uri,omitempty" maxLength:"2048"`
	RefreshToken string         `json:"refresh_token,omitempty" maxLength:"512"`
	SessionID    string         `json:"session_id,omitempty" format:"uuid" doc:"steps up this sign-in instead of making one"`
	Device       *DeviceRequest `json:"device,omitempty"`
}

// DeviceRequest names the device that signs in; its id is the client's choice and stays.
type DeviceRequest struct {
	ID       string `json:"id" format:"uuid"`
	Name     string `json:"name" minLength:"1" maxLength:"200"`
	Platform string `json:"platform" minLength:"1" maxLength:"40"`
}

// TokenAnswer is a pair of tokens, and who holds them.
type TokenAnswer struct {
	AccessToken  string         `json:"access_token"`
	TokenType    string         `json:"token_type" enum:"DPoP"`
	ExpiresIn    int64          `json:"expires_in" doc:"seconds"`
	RefreshToken string         `json:"refresh_token"`
	SessionID    string         `json:"session_id" format:"uuid"`
	Device       DeviceOfToken  `json:"device"`
	Principal    TokenPrincipal `json:"principal"`
}

// DeviceOfToken is the device of a sign-in.
type DeviceOfToken struct {
	ID    string      `json:"id" format:"uuid"`
	State DeviceState `json:"state" enum:"pending,active,revoked"`
}

// TokenPrincipal is the principal of a sign-in.
type TokenPrincipal struct {
	ID     string `json:"id" format:"uuid"`
	Kind   Kind   `json:"kind" enum:"user,agent,app"`
	Handle string `json:"handle"`
}

// LoginCode is a code that signs in once, within its time (WS-ID-1).
type LoginCode struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Me is the caller.
type Me struct {
	Principal Principal `json:"principal"`
	Device    *Device   `json:"device,omitempty"`
	Access    []Access  `json:"access"`
}

// Problem is every error (RFC 9457).
type Problem struct {
	Type       string          `json:"type,omitempty"`
	Title      string          `json:"title"`
	Status     int             `json:"status"`
	Code       string          `json:"code"`
	Detail     string          `json:"detail,omitempty"`
	Errors     []FieldProblem  `json:"errors,omitempty"`
	Current    json.RawMessage `json:"current,omitempty" doc:"of version_conflict: the object as it is"`
	Reason     string          `json:"reason,omitempty"`
	RetryAfter int64           `json:"retry_after,omitempty" doc:"seconds"`
	HeadSeq    int64           `json:"head_seq,omitempty"`
	SyncEpoch  string          `json:"sync_epoch,omitempty"`
	TraceID    string          `json:"trace_id,omitempty"`
}

// FieldProblem is what is wrong with one place of a request; Pointer is a JSON Pointer (RFC 6901) into
// the body, or names a parameter.
type FieldProblem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// The bodies of requests. Clear names optional members that a PATCH empties.
type (
	// NewPrincipal makes a user, agent or app. A handle is 2 to 32 of a-z, 0-9, dot, dash and underscore, with a letter or digit at both ends.
	NewPrincipal struct {
		Handle      string `json:"handle" pattern:"^[a-z0-9][a-z0-9._-]{0,30}[a-z0-9]$"`
		DisplayName string `json:"display_name" minLength:"1" maxLength:"200"`
		Email       string `json:"email,omitempty" maxLength:"254"`
	}
	// NewToken makes an API token of an agent or app.
	NewToken struct {
		Name      string     `json:"name" minLength:"1" maxLength:"200"`
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
		DPoPJKT   string     `json:"dpop_jkt,omitempty" maxLength:"64"`
		Scopes    []string   `json:"scopes,omitempty" maxItems:"50"`
	}
	// NewGroup makes a group.
	NewGroup struct {
		Name string `json:"name" minLength:"1" maxLength:"100"`
	}
	// PutMember puts a principal into a group.
	PutMember struct {
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	}
	// NewGrant makes a grant.
	NewGrant struct {
		Subject      Subject    `json:"subject"`
		Target       Target     `json:"target"`
		Level        Level      `json:"level,omitempty" enum:"read,write,trigger,manage,owner"`
		Capabilities []string   `json:"capabilities,omitempty" maxItems:"10"`
		ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	}
	// NewSpace makes a space, which its maker then owns.
	NewSpace struct {
		Name string `json:"name" minLength:"1" maxLength:"100"`
	}
	// PatchSpace changes a space.
	PatchSpace struct {
		Name *string `json:"name,omitempty" minLength:"1" maxLength:"100"`
	}
	// NewChannel makes a channel.
	NewChannel struct {
		SpaceID string      `json:"space_id" format:"uuid"`
		Kind    ChannelKind `json:"kind" enum:"text,forum"`
		Name    string      `json:"name" minLength:"1" maxLength:"100"`
		Topic   string      `json:"topic,omitempty" maxLength:"1000"`
	}
	// PatchChannel changes a channel.
	PatchChannel struct {
		Name     *string  `json:"name,omitempty" minLength:"1" maxLength:"100"`
		Topic    *string  `json:"topic,omitempty" maxLength:"1000"`
		ReadOnly *bool    `json:"read_only,omitempty"`
		Clear    []string `json:"clear,omitempty" enum:"topic"`
	}
	// PutSettings replaces the settings of a channel.
	PutSettings struct {
		Prompt        string          `json:"prompt,omitempty" maxLength:"20000"`
		Agents        []ChannelAgent  `json:"agents,omitempty" maxItems:"100"`
		BackendPolicy json.RawMessage `json:"backend_policy,omitempty"`
	}
	// NewThread starts a thread or post with its first message.
	NewThread struct {
		Title       string   `json:"title" minLength:"1" maxLength:"200"`
		ClientMsgID string   `json:"client_msg_id" format:"uuid"`
		ContentMD   string   `json:"content_md"`
		FileIDs     []string `json:"file_ids,omitempty"`
	}
	// ThreadStarted answers NewThread.
	ThreadStarted struct {
		Thread  Thread  `json:"thread"`
		Message Message `json:"message"`
	}
	// PatchThread renames a thread.
	PatchThread struct {
		Title *string  `json:"title,omitempty" minLength:"1" maxLength:"200"`
		Clear []string `json:"clear,omitempty" enum:"title"`
	}
	// MoveThread moves a thread to another channel.
	MoveThread struct {
		ChannelID string `json:"channel_id" format:"uuid"`
	}
	// NewMessage sends a message (ES-5.1).
	NewMessage struct {
		ClientMsgID string   `json:"client_msg_id" format:"uuid"`
		ContentMD   string   `json:"content_md"`
		ReplyToID   string   `json:"reply_to_id,omitempty" format:"uuid"`
		FileIDs     []string `json:"file_ids,omitempty"`
		ClearDraft  bool     `json:"clear_draft,omitempty"`
	}
	// EditMessage changes the wording of a message.
	EditMessage struct {
		ContentMD string `json:"content_md"`
	}
	// PutReadState moves a read state forward.
	PutReadState struct {
		LastReadSeq int64 `json:"last_read_seq" minimum:"0"`
	}
	// PutDraft saves a draft.
	PutDraft struct {
		ContentMD   string   `json:"content_md"`
		FileIDs     []string `json:"file_ids,omitempty"`
		BaseVersion *int64   `json:"base_version,omitempty"`
	}
	// PutSetting sets a setting.
	PutSetting struct {
		Value json.RawMessage `json:"value"`
	}
	// PutSidebar saves the arrangement of a space.
	PutSidebar struct {
		State json.RawMessage `json:"state"`
	}
	// PutNotificationPref sets what to be told.
	PutNotificationPref struct {
		Level      string     `json:"level" enum:"all,mentions,none"`
		MutedUntil *time.Time `json:"muted_until,omitempty"`
	}
	// PutQuietHours sets when not to be told.
	PutQuietHours struct {
		Timezone string   `json:"timezone" minLength:"1" maxLength:"64"`
		Days     []string `json:"days" maxItems:"7"`
		From     string   `json:"from" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$"`
		To       string   `json:"to" pattern:"^([01][0-9]|2[0-3]):[0-5][0-9]$"`
	}
	// NewFile announces an upload.
	NewFile struct {
		OriginalName string `json:"original_name" minLength:"1" maxLength:"255"`
		MimeType     string `json:"mime_type" minLength:"1" maxLength:"255"`
		SizeBytes    int64  `json:"size_bytes" minimum:"0"`
		Purpose      string `json:"purpose,omitempty" enum:"attachment"`
	}
	// NewImport begins an import into one space, or goes on with the one that has this source (ES-15.8).
	NewImport struct {
		SpaceID string `json:"space_id" format:"uuid"`
		Source  string `json:"source" minLength:"1" maxLength:"200" doc:"names the export; the same source again goes on with the same import"`
	}
	// Import is an import.
	Import struct {
		ID        string    `json:"id" format:"uuid"`
		SpaceID   string    `json:"space_id" format:"uuid"`
		Source    string    `json:"source"`
		State     string    `json:"state" enum:"running,done"`
		Threads   int64     `json:"threads"`
		Messages  int64     `json:"messages"`
		CreatedAt time.Time `json:"created_at"`
		Version   int64     `json:"version"`
	}
	// ImportBatch is part of one thread, in one transaction (ES-15.8). Messages come in order; what was
	// applied before is skipped by its source id.
	ImportBatch struct {
		Channel  ImportChannel   `json:"channel"`
		Thread   ImportThread    `json:"thread"`
		Messages []ImportMessage `json:"messages" maxItems:"500"`
	}
	// ImportChannel is where a thread belongs; it is made when the import has none with this source id.
	ImportChannel struct {
		SourceID string      `json:"source_id" minLength:"1" maxLength:"200"`
		Name     string      `json:"name" minLength:"1" maxLength:"100"`
		Topic    string      `json:"topic,omitempty" maxLength:"1000"`
		Kind     ChannelKind `json:"kind,omitempty" enum:"text,forum"`
	}
	// ImportThread is the thread of a batch; the main timeline of the channel has Main set.
	ImportThread struct {
		SourceID string `json:"source_id" minLength:"1" maxLength:"200"`
		Main     bool   `json:"main,omitempty"`
		Title    string `json:"title,omitempty" maxLength:"200"`
	}
	// ImportMessage is one imported message.
	ImportMessage struct {
		SourceID        string           `json:"source_id" minLength:"1" maxLength:"200"`
		AuthorSourceID  string           `json:"author_source_id" minLength:"1" maxLength:"200"`
		AuthorName      string           `json:"author_name" maxLength:"200"`
		AuthorEmail     string           `json:"author_email,omitempty" maxLength:"254" doc:"joins the author to a person who has it"`
		ContentMD       string           `json:"content_md"`
		CreatedAt       time.Time        `json:"created_at"`
		EditedAt        *time.Time       `json:"edited_at,omitempty"`
		ReplyToSourceID string           `json:"reply_to_source_id,omitempty" maxLength:"200"`
		Pinned          bool             `json:"pinned,omitempty"`
		Reactions       []ImportReaction `json:"reactions,omitempty" maxItems:"200"`
	}
	// ImportReaction is a reaction of somebody of the source.
	ImportReaction struct {
		Emoji          string `json:"emoji" minLength:"1" maxLength:"64"`
		AuthorSourceID string `json:"author_source_id" minLength:"1" maxLength:"200"`
		AuthorName     string `json:"author_name,omitempty" maxLength:"200"`
		AuthorEmail    string `json:"author_email,omitempty" maxLength:"254" doc:"joins the author to a person who has it"`
	}
	// ImportReceipt answers a batch.
	ImportReceipt struct {
		Import   Import `json:"import"`
		ThreadID string `json:"thread_id" format:"uuid"`
		Added    int64  `json:"added"`
		Known    int64  `json:"known"`
	}
)

// The lists. NextCursor is missing on the last page.
type (
	// Events answers GET events (ES-7.4).
	Events struct {
		Events     []Envelope `json:"events"`
		NextCursor int64      `json:"next_cursor" doc:"everything up to it was checked"`
		HeadSeq    int64      `json:"head_seq"`
		SyncEpoch  string     `json:"sync_epoch" format:"uuid"`
	}
	// Messages answers GET threads/{id}/messages, ascending by thread_seq.
	Messages struct {
		Messages []Message `json:"messages"`
		HasMore  bool      `json:"has_more" doc:"in the direction that was asked for"`
	}
	// Page is any other list.
	Page[T any] struct {
		Items      []T    `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
)
