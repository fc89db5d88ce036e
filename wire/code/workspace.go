package code

// The further codes of the Workspace surface (workspace specification, section 4; ES-5, ES-13). The
// codes it shares with Shared Sessions are Forbidden, NotFound, MethodNotAllowed, PayloadTooLarge,
// InternalError and Unavailable.
const (
	MalformedJSON         Code = "malformed_json"         // a body that is no JSON
	ValidationFailed      Code = "validation_failed"      // unknown field, null, wrong type, or a value that is not allowed
	UnsupportedMediaType  Code = "unsupported_media_type" // a body that claims not to be JSON
	InvalidToken          Code = "invalid_token"          // no access or API token, or a bad one
	TokenExpired          Code = "token_expired"          // refresh it, then again
	InvalidDPoPProof      Code = "invalid_dpop_proof"     // RFC 9449 section 7
	UseDPoPNonce          Code = "use_dpop_nonce"         // RFC 9449 section 9: again with the nonce of the answer
	InvalidCredentials    Code = "invalid_credentials"    // a wrong password, code or refresh token
	DevicePending         Code = "device_pending"         // the device waits for approval (WS-ID-3)
	ScopeMissing          Code = "scope_missing"          // the API token lacks a scope
	StepUpRequired        Code = "step_up_required"       // sign in again, keeping the session (WS-ID-5)
	IdempotencyKeyReuse   Code = "idempotency_key_reuse"  // the same key with another request (ES-5)
	RequestInProgress     Code = "request_in_progress"    // the first request with this key still runs (ES-5.2)
	PreconditionRequired  Code = "precondition_required"  // If-Match is missing
	VersionConflict       Code = "version_conflict"       // If-Match names another version; `current` shows it (ES-13.3)
	MessageDeleted        Code = "message_deleted"        // ES-13.3
	ResyncRequired        Code = "resync_required"        // `reason` says why (ES-7.3)
	Conflict              Code = "conflict"               // the state of the object does not allow this
	LastOwner             Code = "last_owner"             // it would leave the instance without an owner (WS-AZ-3)
	RunActiveOtherAgent   Code = "run_active_other_agent" // ES-15.4
	BaseVersionConflict   Code = "base_version_conflict"  // ES-11.2
	RateLimited           Code = "rate_limited"           // `retry_after` says how long, in seconds
	UnknownOp             Code = "unknown_op"             // a gateway op nobody knows
	NotImplementedForKind Code = "not_available_for_kind" // this op or route is not for this kind of principal
	RangeNotSatisfiable   Code = "range_not_satisfiable"  // the file has no such bytes
	UpgradeRequired       Code = "upgrade_required"       // the gateway is a WebSocket
)

var workspaceTable = map[Code]Info{
	MalformedJSON:         {400, TypeInvalidRequest, false},
	ValidationFailed:      {422, TypeInvalidRequest, false},
	UnsupportedMediaType:  {415, TypeInvalidRequest, false},
	InvalidToken:          {401, TypeInvalidRequest, false},
	TokenExpired:          {401, TypeInvalidRequest, false},
	InvalidDPoPProof:      {401, TypeInvalidRequest, false},
	UseDPoPNonce:          {401, TypeInvalidRequest, true},
	InvalidCredentials:    {401, TypeInvalidRequest, false},
	DevicePending:         {403, TypeInvalidRequest, false},
	ScopeMissing:          {403, TypeInvalidRequest, false},
	StepUpRequired:        {403, TypeInvalidRequest, false},
	IdempotencyKeyReuse:   {422, TypeInvalidRequest, false},
	RequestInProgress:     {409, TypeInvalidRequest, true},
	PreconditionRequired:  {428, TypeInvalidRequest, false},
	VersionConflict:       {412, TypeInvalidRequest, false},
	MessageDeleted:        {410, TypeInvalidRequest, false},
	ResyncRequired:        {410, TypeInvalidRequest, false},
	Conflict:              {409, TypeInvalidRequest, false},
	LastOwner:             {409, TypeInvalidRequest, false},
	RunActiveOtherAgent:   {409, TypeInvalidRequest, false},
	BaseVersionConflict:   {409, TypeInvalidRequest, false},
	RateLimited:           {429, TypeRateLimit, true},
	UnknownOp:             {400, TypeInvalidRequest, false},
	NotImplementedForKind: {403, TypeInvalidRequest, false},
	RangeNotSatisfiable:   {416, TypeInvalidRequest, false},
	UpgradeRequired:       {426, TypeInvalidRequest, false},
}

// The close codes of the Workspace gateway (ES-6.4). CloseNormal and CloseGoingAway are shared.
const (
	CloseUnknownError      Close = 4000 // the server failed, or its database is away
	CloseUnknownOp         Close = 4001
	CloseDecode            Close = 4002 // no strict JSON, a binary frame, or one over the limit
	CloseNotIdentified     Close = 4003 // an op before identify, or no identify in time
	CloseAuthentication    Close = 4004 // the token or its proof is not good
	CloseAlreadyIdentified Close = 4005
	CloseSessionInvalid    Close = 4006 // identify instead of resume
	CloseProtocolVersion   Close = 4007
	CloseRateLimited       Close = 4008 // the reason holds the seconds to wait
	CloseHeartbeat         Close = 4009
	CloseTokenExpired      Close = 4011
	CloseRevoked           Close = 4012 // delete local data and sign out
	CloseServerRestart     Close = 4013
	CloseSlowConsumer      Close = 4014 // catch up from the cursor
	CloseConsumerReplaced  Close = 4015
	CloseDevicePending     Close = 4016
	CloseDeviceReplaced    Close = 4017 // a newer connection of the same device
	CloseForbidden         Close = 4018
)

// Reaction is what a gateway client does about a close code (ES-6.4).
type Reaction int

// The reactions.
const (
	Stay            Reaction = iota // do not connect again by oneself
	Backoff                         // connect again after the back-off of ES-6.5, resume where possible
	Renew                           // renew the access token first, then resume; when that fails, sign out
	Identify                        // connect again and identify instead of resume
	Wait                            // connect again after the seconds in the close reason
	Erase                           // delete every local copy of the account, sign out
	AwaitApproval                   // ask for the device until it is active, then connect
	ImmediateResume                 // connect again at once with a small random delay
)

// React answers what a gateway client does about c. A connection that ended without a code, or with one
// nobody knows, is Backoff.
func (c Close) React() Reaction {
	switch c {
	case CloseNormal, CloseProtocolVersion, CloseConsumerReplaced, CloseDeviceReplaced, CloseForbidden:
		return Stay
	case CloseAuthentication, CloseTokenExpired:
		return Renew
	case CloseSessionInvalid:
		return Identify
	case CloseRateLimited:
		return Wait
	case CloseRevoked:
		return Erase
	case CloseDevicePending:
		return AwaitApproval
	case CloseServerRestart:
		return ImmediateResume
	default:
		return Backoff
	}
}
