package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway/protocol"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// enterPatience bounds the looking at a token and the building of ready.
const enterPatience = 30 * time.Second

// refusal is why a connection does not come in.
type refusal struct {
	code   code.Close
	reason string
}

func (r *refusal) Error() string { return r.reason }

// enter lets a connection in, or ends it (ES-6.3.3, ES-6.3.7).
func (s *session) enter(asked protocol.Enter) {
	ctx, cancel := context.WithTimeout(s.g.ctx, enterPatience)
	defer cancel()
	err := s.admit(ctx, asked)
	if err == nil {
		return
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		s.close(refused.code, refused.reason)
		return
	}
	if s.g.ctx.Err() == nil {
		s.g.Log.Warn("gateway: cannot let a connection in", "error", err)
	}
	s.close(code.CloseUnknownError, "The server cannot answer now.")
}

func (s *session) admit(ctx context.Context, asked protocol.Enter) error {
	request := signin.GatewayRequest{Nonce: s.currentNonce(), URL: s.url}
	if in := asked.Identify; in != nil {
		request.AccessToken, request.APIToken, request.DPoP, request.DeviceID = in.AccessToken, in.APIToken, in.DPoP, in.DeviceID
		if in.AccessToken != "" && in.DeviceID == "" {
			return &refusal{code.CloseAuthentication, "The device is missing."}
		}
	} else {
		request.AccessToken, request.APIToken, request.DPoP = asked.Resume.AccessToken, asked.Resume.APIToken, asked.Resume.DPoP
	}
	s.revocations = s.g.revocations.Load()
	caller, err := s.g.Auth.AuthenticateGateway(ctx, request)
	if err != nil {
		return s.g.refusalOf(err)
	}
	s.caller, s.device, s.connection, s.hears = caller, caller.Device, s.g.Env.RandomID(), hearingOf(caller.Scopes)
	if caller.Scopes != nil && !slices.Contains(caller.Scopes, string(action.GatewayConnect)) {
		return &refusal{code.CloseForbidden, "The token may not connect."}
	}
	if wait := s.limited(); wait > 0 {
		return &refusal{code.CloseRateLimited, strconv.FormatInt(protocol.Seconds(wait), 10)}
	}
	g := s.g
	p := g.hold(caller.Principal)
	defer g.release(p)
	if asked.Identify != nil {
		return s.identify(ctx, p, asked.Identify)
	}
	return s.resume(ctx, p, asked.Resume)
}

func (s *session) limited() time.Duration {
	if s.g.Connecting == nil {
		return 0
	}
	return s.g.Connecting(s.caller.Principal, s.caller.Device)
}

// refusalOf answers how an authentication that failed ends the connection (ES-6.4).
func (g *Gateway) refusalOf(err error) error {
	c := signin.CloseCode(err)
	if c == code.CloseUnknownError {
		return fmt.Errorf("authenticate a connection: %w", err)
	}
	return &refusal{c, fault.From(err).Message}
}

// entrance is what a connection begins with.
type entrance struct {
	state       eventlog.State
	permissions *authz.Snapshot
	ready       *wire.Ready
	focus       wire.Focus // of the session that is resumed
	cursor      *int64     // where the client is; nil: nowhere
	resync      wire.ResyncReason
}

// identify begins a gateway session (ES-6.3.4).
func (s *session) identify(ctx context.Context, p *principal, in *wire.Identify) error {
	g := s.g
	s.id = g.Env.NewID()
	if s.caller.Kind != wire.KindUser {
		s.device = consumer(in.Consumer)
	}
	if err := g.rows.claim(ctx, s); err != nil {
		return err
	}
	begin, err := storage.Read(ctx, g.DB, func(tx storage.Tx) (entrance, error) { return g.entrance(tx, s) })
	if err != nil {
		return fmt.Errorf("build ready: %w", err)
	}
	if err := s.authorize(begin.permissions); err != nil {
		return err
	}
	if in.Cursor != nil {
		begin.cursor = in.Cursor
		begin.resync = begin.state.Resync(*in.Cursor, canonical(in.SyncEpoch), int64(g.Limits.CatchupMaxEvents))
	}
	if s.hears != nil && !s.hears[action.SelfRead] {
		begin.ready.Snapshot = nil // nor does it get one by REST
	}
	s.stream.Send(g.readyBlock(begin.ready))
	return s.begin(ctx, p, begin)
}

// canonical answers the spelling of an epoch that is compared; what is no id is compared as it is.
func canonical(epoch string) string {
	if id, ok := env.ParseID(epoch); ok {
		return id
	}
	return epoch
}

// consumer names the connection of an agent or app: there is one for each consumer (ES-15.1).
func consumer(name string) string {
	if name == "" {
		name = "default"
	}
	return "consumer " + name
}

// readyBlock encodes ready; a snapshot of more than half a frame is loaded by REST.
func (g *Gateway) readyBlock(ready *wire.Ready) *block {
	text := encode(wire.OpReady, ready)
	if len(text) > g.Limits.MaxFrameBytes/2 {
		ready.Snapshot, ready.SnapshotByREST = nil, true
		text = encode(wire.OpReady, ready)
	}
	return textBlock(text)
}

// resume goes on with a gateway session, wherever it was before (ES-6.3.7).
func (s *session) resume(ctx context.Context, p *principal, in *wire.Resume) error {
	g := s.g
	id, ok := env.ParseID(in.GatewaySessionID)
	if !ok {
		return &refusal{code.CloseSessionInvalid, "There is no such gateway session."}
	}
	s.id = id
	row, err := g.rows.takeOver(ctx, s)
	if err != nil {
		return err
	}
	begin, err := g.whereabouts(ctx, p, row, in)
	if err != nil {
		return err
	}
	if err := s.authorize(begin.permissions); err != nil {
		return err
	}
	begin.focus = row.focus
	s.stream.Send(blockOf(wire.OpResumed, wire.Resumed{
		GatewaySessionID: s.id, HeadSeq: begin.state.Head, SyncEpoch: begin.state.SyncEpoch, PermissionVersion: begin.permissions.Version,
	}))
	return s.begin(ctx, p, begin)
}

// whereabouts answers where the log and the principal's permissions are: out of memory when what the client missed is
// remembered, so that a crowd that comes back costs the database nothing here.
func (g *Gateway) whereabouts(ctx context.Context, p *principal, row resumable, in *wire.Resume) (entrance, error) {
	begin := entrance{cursor: &in.Cursor}
	epoch := canonical(in.SyncEpoch)
	g.mu.Lock()
	_, remembered := g.ring.after(in.Cursor, 1)
	known := remembered && in.Cursor <= g.head
	begin.permissions = p.permissions
	begin.state = eventlog.State{Head: g.head, SyncEpoch: row.epoch, MinRetained: row.minRetained}
	g.mu.Unlock()
	if known && begin.permissions != nil {
		g.far(&begin, epoch)
		return begin, nil
	}
	read, err := storage.Read(ctx, g.DB, func(tx storage.Tx) (entrance, error) {
		g.learnClock(tx)
		var read entrance
		var err error
		if !known {
			if read.state, err = eventlog.StateOf(tx); err != nil {
				return entrance{}, err
			}
		}
		read.permissions, err = permissionsOf(tx, p.id)
		return read, err
	})
	if err != nil {
		return entrance{}, fmt.Errorf("read where the log is: %w", err)
	}
	if begin.permissions == nil {
		begin.permissions = read.permissions
	}
	if !known {
		begin.state = read.state
	}
	g.far(&begin, epoch)
	return begin, nil
}

// far sets why the client cannot catch up, if it cannot.
func (g *Gateway) far(begin *entrance, epoch string) {
	begin.resync = begin.state.Resync(*begin.cursor, epoch, int64(g.Limits.CatchupMaxEvents))
}

func permissionsOf(tx storage.Tx, principalID string) (*authz.Snapshot, error) {
	permissions, found, err := authz.Load(tx, principalID)
	if err == nil && !found {
		err = fault.New(code.InvalidToken, "The account does not exist.")
	}
	return permissions, err
}

// authorize asks gateway.connect.
func (s *session) authorize(permissions *authz.Snapshot) error {
	if !permissions.Active() {
		return &refusal{code.CloseRevoked, "The account is not active."}
	}
	if err := authz.Authorize(permissions, s.caller.Caller, action.GatewayConnect, authz.Resource{}, s.g.now()); err != nil {
		return &refusal{code.CloseForbidden, fault.From(err).Message}
	}
	return nil
}

// begin lets the connection join and sends what it missed. The client has been answered.
func (s *session) begin(ctx context.Context, p *principal, with entrance) error {
	g := s.g
	if with.resync != "" {
		s.stream.Send(blockOf(wire.OpResyncRequired, wire.Resync{
			Reason: with.resync, HeadSeq: with.state.Head, SyncEpoch: with.state.SyncEpoch,
		}))
		with.cursor = nil
	}
	s.step(protocol.Entered{Person: s.caller.Kind == wire.KindUser, Expires: s.caller.ExpiresAt})
	missed, err := g.join(ctx, s, p, with)
	if err != nil {
		return err
	}
	if g.revocations.Load() != s.revocations {
		g.askCheck() // it may be this one's, between its authentication and its joining
	}
	if missed != nil {
		g.work.Go(func() { s.catchUp(missed.after, missed.upTo) })
	}
	if len(with.focus.ThreadIDs)+len(with.focus.BackgroundThreadIDs) > 0 {
		s.restoreFocus(ctx, with.focus)
	}
	g.Bus.Publish(signal.Wake{Topic: signal.Gateway, ID: s.device})
	return nil
}
