package server

import (
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/cairnsync/cairn/internal/api/guard"
	apiworkspace "github.com/cairnsync/cairn/internal/api/workspace"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/gateway"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/service"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/files"
	"github.com/cairnsync/cairn/internal/workspace/imports"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/internal/workspace/search"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// room is the Workspace surface of a node.
type room struct {
	log     *eventlog.Log
	tail    *eventlog.Tail
	authz   *authz.Service
	signIn  *signin.Service
	gateway *gateway.Gateway
	files   *files.Service
	indexer *search.Indexer
	api     *apiworkspace.API
}

// kernel is what every part of a node stands on.
type kernel struct {
	config config.Config
	db     storage.DB
	bus    signal.Bus
	env    *env.Env
	log    *slog.Logger
	metric *metrics
}

// newLog makes the event log and the tail that follows it; what this process commits is offered to the tail.
func (k *kernel) newLog() (log *eventlog.Log, committed *offers) {
	committed = &offers{}
	return eventlog.New(eventlog.Options{
		MaxPayload: k.config.Sync.EventPayloadMaxBytes, NewID: k.env.NewID, Committed: committed.offer,
	}), committed
}

// offers hands committed events to those that follow the log, which are made later: they need everything that
// writes. It is complete before anything is started.
type offers struct {
	tail    *eventlog.Tail
	indexer *search.Indexer
}

func (o *offers) offer(records []*eventlog.Record) {
	o.tail.Offer(records)
	o.indexer.Wake()
}

// newRoom puts the Workspace surface together.
func (k *kernel) newRoom(log *eventlog.Log, committed *offers, users *identity.Service) *room {
	c := &k.config
	if c.HTTP.PublicURL == "" && !loopback(c.Listen) {
		k.log.Warn("http.public_url is not set and others than this machine reach the server: nobody can sign in to the Workspace", "listen", c.Listen)
	}
	w := &room{log: log, authz: authz.New(k.db, log, k.env)}
	w.signIn = signin.New(signin.Options{
		DB: k.db, Bus: k.bus, Env: k.env, Identity: users, Auth: c.Auth, PublicURL: c.HTTP.PublicURL,
		LoopbackOnly: loopback(c.Listen), Limits: c.Limits.Enabled,
	})
	own := personal.New(personal.Options{
		DB: k.db, Log: log, MaxChars: c.Message.MaxChars, MaxAttachments: c.Message.MaxAttachments, MaxPayload: c.Sync.EventPayloadMaxBytes,
	})
	w.files = files.New(files.Options{
		DB: k.db, Log: log, Env: k.env, Logger: k.log, Dir: c.FilesDir(), MaxBytes: c.File.MaxBytes, Scanner: scanner(c.File),
	})
	domain := workspace.New(workspace.Options{
		DB: k.db, Log: log, Authz: w.authz, Env: k.env,
		MaxChars: c.Message.MaxChars, MaxAttachments: c.Message.MaxAttachments, MaxPayload: c.Sync.EventPayloadMaxBytes,
		Hooks: workspace.Hooks{ClearDraft: own.ClearDraft, Released: w.files.Released},
	})
	found := search.New(search.Options{DB: k.db, Load: load})
	w.indexer = search.NewIndexer(search.IndexerOptions{DB: k.db, Bus: k.bus, Logger: k.log})
	w.gateway = k.newGateway(w.signIn)
	w.tail = eventlog.NewTail(eventlog.TailOptions{
		DB: k.db, Bus: k.bus, Env: k.env, Log: k.log, Begin: w.gateway.Begin, Deliver: w.gateway.Deliver, Lost: w.gateway.Lost,
	})
	committed.tail, committed.indexer = w.tail, w.indexer
	w.api = apiworkspace.New(apiworkspace.Options{
		Env: k.env, Log: k.log, Limits: c.Limits, MaxBodyBytes: c.HTTP.MaxBodyBytes, AllowedOrigins: c.HTTP.AllowedOrigins,
		TrustedProxies: c.HTTP.TrustedProxies, DB: k.db, Identity: users, SignIn: w.signIn, Authz: w.authz, Workspace: domain, Personal: own, Files: w.files,
		Imports: imports.New(imports.Options{DB: k.db, Log: log, Env: k.env, MaxChars: c.Message.MaxChars}),
		Search:  found, Gateway: w.gateway, OIDCIssuer: c.Auth.OIDC.Issuer, OIDCClientID: c.Auth.OIDC.ClientID,
		Version: version(), Observe: k.metric.request(k.log),
	})
	return w
}

// add orders what follows the log behind the parts that write to it.
func (w *room) add(group *service.Group, k *kernel) {
	group.Add("event log", w.tail)
	group.Add("search index", w.indexer)
	group.Add("file scanner", files.NewWorker(w.files))
	group.Add("expiry sweep", authz.NewSweeper(authz.SweeperOptions{
		Authz: w.authz, Log: k.log, Interval: k.config.Authz.ExpirySweepInterval, Notice: k.config.Authz.ExpiryNotice,
	}))
	group.Add("event retention", eventlog.NewRetention(eventlog.RetentionOptions{DB: k.db, Log: k.log, Keep: k.config.Sync.EventRetention}))
	group.Add("idempotency keys", idempotency.NewSweeper(idempotency.SweeperOptions{DB: k.db, Log: k.log, TTL: k.config.Sync.IdempotencyKeyTTL}))
}

func (k *kernel) newGateway(who *signin.Service) *gateway.Gateway {
	c := &k.config
	var connecting func(principal, device string) time.Duration
	if rate := c.Limits.GatewayConnect; c.Limits.Enabled {
		limiter := guard.NewLimiter(k.env, float64(rate.Count)/rate.Per.Seconds(), rate.Count)
		connecting = func(principal, device string) time.Duration { return limiter.Take(principal + " " + device) }
	}
	var each time.Duration
	if !c.Limits.Enabled {
		each = -1
	}
	origins := guard.NewOrigins(c.HTTP.AllowedOrigins, nil, nil)
	return gateway.New(gateway.Options{
		DB: k.db, Bus: k.bus, Env: k.env, Log: k.log, Auth: who, Document: document, Connecting: connecting, Origin: origins.Allowed,
		Observe: k.metric.conn(k.log), Limits: gateway.Limits{
			IdentifyTimeout: c.Sync.IdentifyTimeout, HeartbeatInterval: c.Sync.HeartbeatInterval, HeartbeatMissLimit: c.Sync.HeartbeatMissLimit,
			ResumeWindow: c.Sync.ResumeWindow, ReauthLeadTime: c.Sync.ReauthLeadTime, MaxFrameBytes: c.Sync.WSMaxFrameBytes,
			CatchupPageSize: c.Sync.CatchupPageSize, CatchupMaxEvents: int(c.Sync.CatchupMaxEvents), CursorAdvanceEvery: c.Sync.CursorAdvanceEvery,
			OutboundQueueMax: c.Sync.OutboundQueueMax, MaxFocusedThreads: c.Sync.MaxFocusedThreads,
			TypingMinInterval: c.Sync.TypingMinInterval, TypingTTL: c.Sync.TypingTTL, WriteTimeout: c.Gateway.WriteTimeout,
			OpInterval: each,
		},
	})
}

// document adds to a snapshot what the domains know (workspace specification, section 4).
func document(tx storage.Tx, permissions *authz.Snapshot, into *wire.Snapshot) (err error) {
	if into.Spaces, err = workspace.VisibleSpaces(tx, permissions); err != nil {
		return err
	}
	if into.Channels, err = workspace.VisibleChannels(tx, permissions); err != nil {
		return err
	}
	if into.Agents, err = identity.AgentsOf(tx, permissions); err != nil {
		return err
	}
	if permissions.Principal.Kind != wire.KindUser { // only people have personal data
		return nil
	}
	if into.Sidebar, err = personal.Sidebars(tx, permissions); err != nil {
		return err
	}
	if into.ReadStates, err = personal.Unread(tx, permissions); err != nil {
		return err
	}
	if into.SettingsVersions, err = personal.SettingsVersions(tx, permissions.Principal.ID); err != nil {
		return err
	}
	into.DraftVersions, err = personal.DraftVersions(tx, permissions)
	return err
}

// load answers found messages as the caller sees them.
func load(tx storage.Tx, by authz.Caller, ids []string) ([]wire.Message, error) {
	placed, err := workspace.MessagesByID(tx, ids)
	if err != nil {
		return nil, err
	}
	pointers := make([]*workspace.PlacedMessage, len(placed))
	for i := range placed {
		pointers[i] = &placed[i]
	}
	if err := workspace.Complete(tx, by.Principal, pointers...); err != nil {
		return nil, err
	}
	messages := make([]wire.Message, len(placed))
	for i := range placed {
		messages[i] = placed[i].Message
	}
	return messages, nil
}

// scanner is nil where nothing scans.
func scanner(c config.File) files.Scanner {
	if c.Scanner != "clamd" {
		return nil
	}
	return files.Clamd{Address: c.ClamdAddress}
}

// loopback reports whether nobody but this machine reaches the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// version is the version of the program, as it was built.
func version() string {
	if info, known := debug.ReadBuildInfo(); known && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
