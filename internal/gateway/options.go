package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/gateway/protocol"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Authenticator answers who connects (signin.Service).
type Authenticator interface {
	// AuthenticateGateway answers who identifies, resumes or renews its token. signin.CloseCode says how its
	// errors end the connection.
	AuthenticateGateway(ctx context.Context, r signin.GatewayRequest) (signin.Caller, error)
	// Nonce makes a nonce for a proof of possession.
	Nonce() string
}

// Limits are the named values of the gateway. A zero field means its default (ES-18).
type Limits struct {
	IdentifyTimeout    time.Duration // sync.identify_timeout
	HeartbeatInterval  time.Duration // sync.heartbeat_interval
	HeartbeatMissLimit int           // sync.heartbeat_miss_limit
	ResumeWindow       time.Duration // sync.resume_window
	ReauthLeadTime     time.Duration // sync.reauth_lead_time
	MaxFrameBytes      int           // sync.ws_max_frame_bytes
	CatchupPageSize    int           // sync.catchup_page_size
	CatchupMaxEvents   int           // sync.catchup_max_events
	CursorAdvanceEvery int           // sync.cursor_advance_every
	OutboundQueueMax   int           // sync.outbound_queue_max, in frames
	MaxFocusedThreads  int           // sync.max_focused_threads
	TypingMinInterval  time.Duration // sync.typing_min_interval
	TypingTTL          time.Duration // sync.typing_ttl
	OpInterval         time.Duration // of ops that need the database, after the first opBurst; negative: no limit
	WriteTimeout       time.Duration // gateway.write_timeout
	MaxConnections     int           // of this node
}

func (l Limits) withDefaults() Limits {
	return Limits{
		IdentifyTimeout:    cmp.Or(l.IdentifyTimeout, 10*time.Second),
		HeartbeatInterval:  cmp.Or(l.HeartbeatInterval, 30*time.Second),
		HeartbeatMissLimit: cmp.Or(l.HeartbeatMissLimit, 2),
		ResumeWindow:       cmp.Or(l.ResumeWindow, 5*time.Minute),
		ReauthLeadTime:     cmp.Or(l.ReauthLeadTime, time.Minute),
		MaxFrameBytes:      cmp.Or(l.MaxFrameBytes, 1<<20),
		CatchupPageSize:    cmp.Or(l.CatchupPageSize, 500),
		CatchupMaxEvents:   cmp.Or(l.CatchupMaxEvents, 50_000),
		CursorAdvanceEvery: cmp.Or(l.CursorAdvanceEvery, 1000),
		OutboundQueueMax:   cmp.Or(l.OutboundQueueMax, 10_000),
		MaxFocusedThreads:  cmp.Or(l.MaxFocusedThreads, 20),
		TypingMinInterval:  cmp.Or(l.TypingMinInterval, 5*time.Second),
		TypingTTL:          cmp.Or(l.TypingTTL, 8*time.Second),
		OpInterval:         cmp.Or(l.OpInterval, 500*time.Millisecond),
		WriteTimeout:       cmp.Or(l.WriteTimeout, 10*time.Second),
		MaxConnections:     cmp.Or(l.MaxConnections, 100_000),
	}
}

// machine is what the state machine of a connection goes by.
func (l Limits) machine() protocol.Config {
	return protocol.Config{
		IdentifyTimeout: l.IdentifyTimeout, HeartbeatInterval: l.HeartbeatInterval, HeartbeatMisses: l.HeartbeatMissLimit,
		ReauthLeadTime: l.ReauthLeadTime, MaxFocused: l.MaxFocusedThreads, TypingMinInterval: l.TypingMinInterval,
		OpBurst: opBurst, OpInterval: l.OpInterval,
	}
}

const (
	// opBurst is how many ops that need the database a connection may send at once: somebody who leafs through threads says
	// a focus for each.
	opBurst = 40
	// queueBytes bounds what waits for one connection. The bytes of an event are shared by all it waits for.
	queueBytes = 16 << 20
	// roomBytes is what may wait for a connection that catches up before the next page is read.
	roomBytes = 512 << 10
	// never is the age and the silence at which streams are left alone: the gateway has heartbeats of its own.
	never = 10 * 365 * 24 * time.Hour
)

// streams are the kernel's limits for the gateway's connections.
func (l Limits) streams() conn.Limits {
	return conn.Limits{
		QueueFrames: l.OutboundQueueMax, QueueBytes: queueBytes, RoomBytes: roomBytes, MaxMessage: int64(l.MaxFrameBytes), MaxStreams: l.MaxConnections,
		PingEvery: never, PongWithin: never, MaxAge: never, WriteTimeout: l.WriteTimeout, TellStuck: true,
		Codes: conn.Codes{
			Slow: code.CloseSlowConsumer, Binary: code.CloseDecode, InvalidUTF8: code.CloseDecode, TooBig: code.CloseDecode,
			Stop: code.CloseServerRestart, Failed: code.CloseUnknownError,
		},
	}
}

// Options are what a Gateway needs.
type Options struct {
	DB   storage.DB
	Bus  signal.Bus
	Env  *env.Env
	Log  *slog.Logger
	Auth Authenticator
	// Document adds to a snapshot what the domains know: spaces, channels, personal data. It runs in the
	// transaction that everything in the snapshot is read in.
	Document func(tx storage.Tx, permissions *authz.Snapshot, into *wire.Snapshot) error
	// Connecting counts an identify or resume against rl.gateway_connect and answers how long to wait, 0 for
	// nothing. Nil is no limit.
	Connecting func(principalID, deviceID string) time.Duration
	// Origin reports whether a page of the request's origin may connect. Nil is yes.
	Origin  func(r *http.Request) bool
	Limits  Limits
	Observe *conn.Observer // may be nil
}
