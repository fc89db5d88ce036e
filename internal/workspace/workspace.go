package workspace

import (
	"sync"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/identity/lru"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Options are what a Service needs.
type Options struct {
	DB    storage.DB
	Log   *eventlog.Log
	Authz *authz.Service
	Env   *env.Env
	// MaxChars is message.max_chars, in characters.
	MaxChars int
	// MaxAttachments is message.max_attachments.
	MaxAttachments int
	// MaxPayload is sync.event_payload_max_bytes: larger payloads are reduced (ES-2.2).
	MaxPayload int
	Hooks      Hooks
}

// Hooks are what other packages do in the transaction that changes a message. Each may be nil, and may
// refuse only before it has written.
type Hooks struct {
	// ClearDraft deletes the caller's draft of the thread with its event draft.deleted, if there is one: the
	// message was sent with clear_draft (ES-14).
	ClearDraft func(tx storage.Tx, by authz.Caller, scope wire.Scope) error
	// Released deletes files of a deleted message that no message holds any more. The transaction holds
	// storage.LockFiles of each.
	Released func(tx storage.Tx, by authz.Caller, fileIDs []string) error
}

// Service is the domain's operations. Make it with New.
type Service struct {
	db             storage.DB
	log            *eventlog.Log
	authz          *authz.Service
	env            *env.Env
	maxChars       int
	maxAttachments int
	maxPayload     int
	hooks          Hooks

	mu sync.Mutex
	// snapshots are permissions as of their version, by principal and sign-in.
	snapshots *lru.Cache[string, *authz.Snapshot] // guarded by mu
}

// maxSnapshots bounds the remembered permissions, of which each has some kilobytes; the principal that wrote
// longest ago goes.
const maxSnapshots = 2_000

// New makes the service.
func New(o Options) *Service {
	return &Service{
		db: o.DB, log: o.Log, authz: o.Authz, env: o.Env, maxChars: o.MaxChars, maxAttachments: o.MaxAttachments,
		maxPayload: o.MaxPayload, hooks: o.Hooks, snapshots: lru.New[string, *authz.Snapshot](maxSnapshots),
	}
}

// event is an event of the caller's; what else it has is added by its producer.
func event(by authz.Caller, kind string, scope wire.Scope, resourceID string, version int64, payload any) eventlog.Event {
	return eventlog.Event{
		Type: kind, Actor: by.Actor(), Scope: scope, ResourceID: resourceID, ResourceVersion: version, Payload: payload,
		CorrelationID: by.Correlation, TraceContext: by.Trace,
	}
}

// The administration that is written down, by what was done.
const (
	auditSpaceCreate      = "space:create"
	auditSpacePatch       = "space:patch"
	auditSpaceArchive     = "space:archive"
	auditSpaceUnarchive   = "space:unarchive"
	auditChannelCreate    = "channel:create"
	auditChannelPatch     = "channel:patch"
	auditChannelArchive   = "channel:archive"
	auditChannelUnarchive = "channel:unarchive"
	auditChannelSettings  = "channel:settings"
	auditThreadMove       = "thread:move"
	auditMessageDelete    = "message:delete"
)

func (s *Service) audit(tx storage.Tx, by authz.Caller, action, kind, id string, detail any) error {
	return audit.Write(tx, s.env, audit.Entry{
		UserID: by.AuditID(), DeviceID: by.Device, Action: action, TargetKind: kind, TargetID: id, Detail: detail,
	})
}

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
