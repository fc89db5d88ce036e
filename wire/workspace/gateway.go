package workspace

import (
	"encoding/json"
	"time"
)

// ProtocolVersion is the version of the gateway this package describes (ES-6.1).
const ProtocolVersion = 1

// Frame is every message of the gateway, in both directions (ES-2.3).
type Frame struct {
	Op string          `json:"op"`
	D  json.RawMessage `json:"d,omitempty"`
}

// The ops a client sends (ES-6.2).
const (
	OpIdentify    = "identify"
	OpResume      = "resume"
	OpHeartbeat   = "heartbeat"
	OpReauth      = "reauth"
	OpFocus       = "focus"
	OpTypingStart = "typing.start"
	OpTypingStop  = "typing.stop"
)

// The ops a server sends (ES-6.2).
const (
	OpHello           = "hello"
	OpReady           = "ready"
	OpResumed         = "resumed"
	OpDispatch        = "dispatch"
	OpCursor          = "cursor"
	OpCatchupComplete = "catchup.complete"
	OpResyncRequired  = "resync_required"
	OpHeartbeatAck    = "heartbeat_ack"
	OpReauthRequired  = "reauth_required"
	OpError           = "error"
)

// What clients send. Ref, where there is one, comes back in the error about the op.
type (
	// Identify signs a connection in (ES-6.3.3). Cursor and SyncEpoch are missing on the first connection.
	Identify struct {
		AccessToken     string      `json:"access_token,omitempty"`
		APIToken        string      `json:"api_token,omitempty" doc:"agents and apps"`
		DPoP            string      `json:"dpop,omitempty"`
		DeviceID        string      `json:"device_id,omitempty"`
		Consumer        string      `json:"consumer,omitempty" doc:"agents"`
		ProtocolVersion int         `json:"protocol_version"`
		Cursor          *int64      `json:"cursor,omitempty"`
		SyncEpoch       string      `json:"sync_epoch,omitempty"`
		Client          *ClientInfo `json:"client,omitempty"`
		Ref             string      `json:"ref,omitempty"`
	}
	// ClientInfo names the program that connects.
	ClientInfo struct {
		Platform string `json:"platform"`
		Version  string `json:"version"`
	}
	// Resume goes on with a gateway session after a short disconnect (ES-6.3.7).
	Resume struct {
		GatewaySessionID string `json:"gateway_session_id"`
		AccessToken      string `json:"access_token,omitempty"`
		APIToken         string `json:"api_token,omitempty"`
		DPoP             string `json:"dpop,omitempty"`
		Cursor           int64  `json:"cursor"`
		SyncEpoch        string `json:"sync_epoch,omitempty"`
		Ref              string `json:"ref,omitempty"`
	}
	// Heartbeat is a sign of life; LastSeq is the last event the client has processed.
	Heartbeat struct {
		LastSeq int64  `json:"last_seq"`
		Ref     string `json:"ref,omitempty"`
	}
	// Reauth gives a connection a new access token (ES-6.3.6).
	Reauth struct {
		AccessToken string `json:"access_token"`
		DPoP        string `json:"dpop"`
		Ref         string `json:"ref,omitempty"`
	}
	// Focus names the threads that are visible right now (ES-6.2).
	Focus struct {
		ThreadIDs           []string `json:"thread_ids"`
		BackgroundThreadIDs []string `json:"background_thread_ids,omitempty"`
		Idle                bool     `json:"idle,omitempty"`
		Ref                 string   `json:"ref,omitempty"`
	}
	// Typing is of typing.start and typing.stop (ES-12.1).
	Typing struct {
		ThreadID string `json:"thread_id"`
		Ref      string `json:"ref,omitempty"`
	}
)

// What servers send.
type (
	// Hello is the first frame of a connection (ES-6.3.2).
	Hello struct {
		HeartbeatIntervalMS int64     `json:"heartbeat_interval_ms"`
		ResumeWindowMS      int64     `json:"resume_window_ms"`
		ProtocolVersions    []int     `json:"protocol_versions"`
		DPoPNonce           string    `json:"dpop_nonce"`
		ServerTime          time.Time `json:"server_time"`
		SyncEpoch           string    `json:"sync_epoch" format:"uuid"`
	}
	// Ready answers identify (ES-6.3.4). Without Snapshot, SnapshotByREST is set.
	Ready struct {
		GatewaySessionID  string    `json:"gateway_session_id" format:"uuid"`
		Principal         Principal `json:"principal"`
		DeviceID          string    `json:"device_id,omitempty" format:"uuid"`
		PermissionVersion int64     `json:"permission_version"`
		HeadSeq           int64     `json:"head_seq"`
		SyncEpoch         string    `json:"sync_epoch" format:"uuid"`
		Snapshot          *Snapshot `json:"snapshot,omitempty"`
		SnapshotByREST    bool      `json:"snapshot_by_rest,omitempty" doc:"the snapshot is too large for a frame"`
	}
	// Resumed answers resume.
	Resumed struct {
		GatewaySessionID  string `json:"gateway_session_id" format:"uuid"`
		HeadSeq           int64  `json:"head_seq"`
		SyncEpoch         string `json:"sync_epoch" format:"uuid"`
		PermissionVersion int64  `json:"permission_version"`
	}
	// Cursor says that everything up to Seq was checked for this principal (ES-7.1).
	Cursor struct {
		Seq int64 `json:"seq"`
	}
	// CatchupComplete says that the connection is live from now on.
	CatchupComplete struct {
		HeadSeq int64 `json:"head_seq"`
	}
	// Resync says why the client has to load a snapshot (ES-7.3). The connection is live from HeadSeq.
	Resync struct {
		Reason    ResyncReason `json:"reason" enum:"epoch_changed,retention,too_far_behind,cursor_ahead"`
		HeadSeq   int64        `json:"head_seq"`
		SyncEpoch string       `json:"sync_epoch" format:"uuid"`
	}
	// HeartbeatAck answers a heartbeat.
	HeartbeatAck struct {
		Ref string `json:"ref,omitempty"`
	}
	// ReauthRequired says that the access token ends soon; DPoPNonce is for the proof of reauth.
	ReauthRequired struct {
		ExpiresAt time.Time `json:"expires_at"`
		DPoPNonce string    `json:"dpop_nonce"`
	}
	// OpFailed is of error: an op was refused, the connection stays.
	OpFailed struct {
		Op         string `json:"op"`
		Code       string `json:"code"`
		Detail     string `json:"detail,omitempty"`
		Ref        string `json:"ref,omitempty"`
		RetryAfter int64  `json:"retry_after,omitempty" doc:"seconds"`
	}
)

// ResyncReason is why a client cannot catch up.
type ResyncReason string

// The reasons of resync_required (ES-7.3).
const (
	ResyncEpoch  ResyncReason = "epoch_changed"
	ResyncOld    ResyncReason = "retention"
	ResyncFar    ResyncReason = "too_far_behind"
	ResyncFuture ResyncReason = "cursor_ahead"
)
