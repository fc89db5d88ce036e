// Package server puts the parts of cairn together: it is the only place that knows them all.
//
// Contract. New opens the database and refuses what cannot be served, with a message that says what to
// do. Start serves; URL then answers the base URL. Stop ends in good order (SS-STR-8): it stops to
// accept, lets requests finish, ends streams cleanly, leaves leases to their holders, ends the
// presence of its connections, and closes the database; it is bounded by its context.
//
// Concurrency. A Server is used by one goroutine; URL may be called by any after Start.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"

	apisessions "github.com/cairnsync/cairn/internal/api/sessions"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/service"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/session/live"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
)

// Options are what a Server is made of.
type Options struct {
	Config config.Config
	Log    *slog.Logger
	Env    *env.Env
}

// Server is one node.
type Server struct {
	db       storage.DB
	group    service.Group
	pusher   *outbound.FCM // nil when push is not configured
	listener *listener
	identity *identity.Service
	room     *room
}

// New opens the database and puts the node together.
func New(ctx context.Context, o Options) (*Server, error) {
	certificate, err := loadCertificate(o.Config.TLS)
	if err != nil {
		return nil, err
	}
	metrics := newMetrics()
	pusher, err := newPusher(o.Config.Push)
	if err != nil {
		return nil, err
	}
	db, err := openStorage(ctx, o, metrics)
	if err != nil {
		return nil, err
	}
	s := &Server{db: db, pusher: pusher}
	s.compose(o, metrics, pusher, certificate)
	return s, nil
}

func openStorage(ctx context.Context, o Options, m *metrics) (storage.DB, error) {
	migrate := storage.MigrateUp
	if !o.Config.Storage.Migrate {
		migrate = storage.MigrateRefuse
	}
	return storage.Open(ctx, storage.Options{
		URL: o.Config.Database, Env: o.Env, Log: o.Log, Migrate: migrate, Server: true,
		Lanes: o.Config.Storage.Lanes, Readers: o.Config.Storage.Readers, Observer: m.storage(),
	})
}

// compose makes every part and orders them: what is started first is stopped last.
func (s *Server) compose(o Options, m *metrics, pusher *outbound.FCM, certificate *tls.Certificate) {
	bus := newBus(s.db, o)
	k := &kernel{config: o.Config, db: s.db, bus: bus, env: o.Env, log: o.Log, metric: m}
	log, committed := k.newLog()
	s.identity = identity.New(s.db, bus, o.Env, identity.WithLog(log))
	s.room = k.newRoom(log, committed, s.identity)
	outbox := outbound.NewOutbox(s.db, bus, m.pusher(pusher), o.Config.Push.Pause, o.Env, o.Log)
	hub := live.New(live.Options{
		DB: s.db, Bus: bus, Env: o.Env, Log: o.Log, MaxAnnounced: o.Config.Presence.MaxAnnounced,
		QueueFrames: o.Config.Stream.QueueFrames, PageSent: m.pageSent,
	})
	keeper := conn.NewKeeper(conn.Limits{
		QueueFrames: o.Config.Stream.QueueFrames, QueueBytes: o.Config.Stream.QueueBytes,
		MaxMessage: o.Config.HTTP.MaxBodyBytes, PingEvery: o.Config.Stream.Ping, PongWithin: o.Config.Stream.Pong,
		MaxAge: o.Config.Stream.MaxAge,
	}, o.Env, m.conn(o.Log))
	m.watch("", keeper.Stats)
	m.watch("gateway_", s.room.gateway.Stats)
	api := apisessions.New(apisessions.Options{
		DB: s.db, Identity: s.identity, Sessions: session.New(s.db, bus, o.Env, hub), Hub: hub, Keeper: keeper,
		Outbox: outbox, Env: o.Env, Log: o.Log, MaxBodyBytes: o.Config.HTTP.MaxBodyBytes,
		CORSOrigins: o.Config.HTTP.CORSOrigins, RatePerSec: o.Config.RateLimit.PerSecond, RateBurst: o.Config.RateLimit.Burst,
		Observe: m.request(o.Log),
	})
	s.listener = newListener(o, routes(s.db, api, s.room.api, m, o.Config), m, certificate, api.Hurry)
	s.group.Add("signal", bus)
	s.group.Add("identity", s.identity)
	s.group.Add("sign-in", s.room.signIn)
	s.room.add(&s.group, k)
	s.group.Add("push outbox", outbox)
	s.group.Add("live feed", hub)
	s.group.Add("listener and streams", front{s.listener, []service.Service{keeper, s.room.gateway}})
}

// bus is a signal.Bus with a life.
type bus interface {
	signal.Bus
	service.Service
}

func newBus(db storage.DB, o Options) bus {
	if storage.EngineName(db) == "postgres" {
		return signal.NewPostgres(o.Config.Database, o.Env, o.Log)
	}
	// Read on the writer's own connection, it changes only by other processes' commits.
	version := func(ctx context.Context) (int64, error) {
		return storage.Write(ctx, db, nil, func(tx storage.Tx) (int64, error) {
			var version int64
			_, err := tx.Get(`PRAGMA data_version`, nil, &version)
			return version, err
		})
	}
	return signal.NewSQLite(version, o.Env, o.Log)
}

// newPusher answers nil when push is not configured.
func newPusher(c config.Push) (*outbound.FCM, error) {
	if c.FCM.Project == "" {
		return nil, nil //nolint:nilnil // the outbox knows what to do without a pusher
	}
	credentials, err := os.ReadFile(c.FCM.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("read push credentials (push.fcm.credentials_file): %w", err)
	}
	return outbound.NewFCM(outbound.Config{ProjectID: c.FCM.Project, Credentials: credentials, Endpoint: c.FCM.Endpoint})
}

func loadCertificate(c config.TLS) (*tls.Certificate, error) {
	if c.CertFile == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate (tls.cert_file, tls.key_file): %w", err)
	}
	return &certificate, nil
}

// Start begins to serve.
func (s *Server) Start(ctx context.Context) error { return s.group.Start(ctx) }

// URL is the base URL of a started server.
func (s *Server) URL() string { return s.listener.url() }

// Failed answers a channel that gets an error when the server can no longer accept.
func (s *Server) Failed() <-chan error { return s.listener.failed }

// Identity administers users and keys on this node's database.
func (s *Server) Identity() *identity.Service { return s.identity }

// SignIn lets people of this node's database in.
func (s *Server) SignIn() *signin.Service { return s.room.signIn }

// Authz changes permissions on this node's database.
func (s *Server) Authz() *authz.Service { return s.room.authz }

// Stop ends the node.
func (s *Server) Stop(ctx context.Context) error {
	err := s.group.Stop(ctx)
	if s.pusher != nil {
		s.pusher.Close()
	}
	return errors.Join(err, s.db.Close())
}
