package sessions

import "encoding/json"

// IncomingEvent is an event as an executor sends it; the server gives it a seq.
type IncomingEvent struct {
	Kind          string          `json:"kind"`
	TS            *int64          `json:"ts,omitempty"`
	TurnID        *string         `json:"turn_id,omitempty"`
	ClientEventID *string         `json:"client_event_id,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
}

// IncomingControl is a control as an editor sends it.
type IncomingControl struct {
	ID     string      `json:"id"`
	Kind   ControlKind `json:"kind"`
	Text   *string     `json:"text,omitempty"`
	TurnID *string     `json:"turn_id,omitempty"`
	AskID  *string     `json:"ask_id,omitempty"`
}

// Receipt answers an append: where each element of the batch stands in the log.
type Receipt struct {
	LastSeq  int64          `json:"last_seq"`
	Accepted int            `json:"accepted"` // newly stored; known client_event_ids do not count
	Events   []ReceiptEntry `json:"events"`
}

// ReceiptEntry is the place of one element.
type ReceiptEntry struct {
	ClientEventID *string `json:"client_event_id"`
	Seq           int64   `json:"seq"`
}

// ControlReceipt answers a control.
type ControlReceipt struct {
	Accepted  bool  `json:"accepted"`
	Seq       int64 `json:"seq"`
	Duplicate bool  `json:"duplicate"`
}

// Dispatch is a request to start work on one device.
type Dispatch struct {
	DeviceID  string  `json:"device_id"`
	Mode      Mode    `json:"mode,omitempty"`
	Text      *string `json:"text,omitempty"`
	TurnID    *string `json:"turn_id,omitempty"`
	ControlID *string `json:"control_id,omitempty"`
}

// PushReason says why a push did not reach its device (SS-DSP-3).
type PushReason string

// The reasons of the push service; http_<status> is made of the status it answered.
const (
	PushNoPushToken  PushReason = "no_push_token"
	PushNoToken      PushReason = "no_token"
	PushAuthFailed   PushReason = "auth_failed"
	PushNetworkError PushReason = "network_error"
	PushUnregistered PushReason = "unregistered"
)

// DispatchReceipt answers a dispatch.
type DispatchReceipt struct {
	ControlID      string     `json:"control_id"`
	Seq            int64      `json:"seq"`
	TargetDeviceID string     `json:"target_device_id"`
	Mode           Mode       `json:"mode"`
	Queued         bool       `json:"queued"`
	Pushed         bool       `json:"pushed"`
	Duplicate      bool       `json:"duplicate"`
	PushReason     PushReason `json:"push_reason,omitempty"`
}

// InboxSession is a session with controls waiting for the calling device (SS-DSP-4).
type InboxSession struct {
	ID         string    `json:"id"`
	SessionKey string    `json:"session_key"`
	Title      *string   `json:"title"`
	Controls   []Control `json:"controls"`
}

// Inbox answers GET /v1/devices/me/dispatch.
type Inbox struct {
	DeviceID string         `json:"device_id"`
	Sessions []InboxSession `json:"sessions"`
}

// Frame names of a stream (SS-STR-3): the SSE `event:` and the WebSocket `t`.
const (
	FrameEvent    = "event"
	FrameControl  = "control"
	FrameLease    = "lease"
	FramePresence = "presence"
	FrameReset    = "reset"
	FrameClosed   = "closed"
	FrameEvents   = "events" // up only
	FrameAck      = "ack"
	FrameError    = "error"
)

// Headers of a request (SS-DEV-0, SS-HTTP-7).
const (
	HeaderDevice     = "X-Codai-Device"
	HeaderPlatform   = "X-Codai-Device-Platform"
	HeaderDeviceName = "X-Codai-Device-Name"
	HeaderPushToken  = "X-Codai-Push-Token"
	HeaderShareToken = "X-Codai-Share-Token"
	HeaderTrace      = "X-Codai-Trace-Id"
	HeaderRequestID  = "X-Request-Id"
)

// Subprotocols of a WebSocket opened by a browser (SS-STR-6).
const (
	Subprotocol         = "codai.v1"
	SubprotocolBearer   = "codai.bearer."
	SubprotocolDevice   = "codai.device."
	SubprotocolPlatform = "codai.platform."
)

// Limits of the protocol (SS-OBJ-2), in Unicode code points where they count text.
const (
	MaxKind         = 64
	MaxID           = 128 // turn_id, client_event_id, ask_id, control id
	MaxText         = 100_000
	MaxSessionKey   = 256
	MaxTitle        = 500
	MaxOrgName      = 200
	MaxCapabilities = 64
	MaxCapability   = 64
	MaxDeviceName   = 120
	MinPushToken    = 8
	MaxPushToken    = 4096
	MaxBatch        = 200
	MaxDepth        = 512 // nesting of a payload (SS-OBJ-1)
	MaxRecipients   = 64  // of a sealed payload (SS-E2E-2)
)
