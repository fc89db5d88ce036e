package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway/protocol"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Gateway is the live side of the Workspace surface on one node. Make it with New; start it after the tail that
// feeds it, stop it before.
type Gateway struct {
	Options

	machine protocol.Config
	keeper  *conn.Keeper
	rows    *rows
	typings chan typing
	reading chan struct{} // holds one for each page that is being read
	check   chan struct{} // asks for a look at everybody's credentials

	ctx    context.Context //nolint:containedctx // the life of the gateway's own goroutines
	cancel context.CancelFunc
	work   sync.WaitGroup
	unwake func()
	// revocations counts the wake-ups about credentials: who came in meanwhile is looked at again.
	revocations atomic.Int64
	skew        atomic.Int64 // how far the database's clock is ahead of the process's, in nanoseconds

	mu       sync.Mutex // guards everything below
	stopping bool
	head     int64  // everything up to it was delivered
	epoch    string // of the log
	// permissionVersion is the newest one that a delivered event names.
	permissionVersion int64

	places places
	placed struct {
		known bool   // places were read
		epoch uint32 // grows with every change of a place
	}
	index      index
	principals map[string]*principal
	sessions   map[*session]struct{} // every connection, signed in or not
	devices    map[string][]*session // by device
	focus      map[string]map[*session]struct{}
	ring       ring
	moves      moves
	touched    []*session // that were given something in this delivery
	unswept    int        // events since cursors were told
}

// New makes a gateway.
func New(options Options) *Gateway {
	options.Limits = options.Limits.withDefaults()
	g := &Gateway{
		Options: options, machine: options.Limits.machine(), keeper: conn.NewKeeper(options.Limits.streams(), options.Env, options.Observe),
		typings: make(chan typing, maxTypings), reading: make(chan struct{}, readers), check: make(chan struct{}, 1),
		places: newPlaces(), index: newIndex(), principals: map[string]*principal{}, sessions: map[*session]struct{}{},
		devices: map[string][]*session{}, focus: map[string]map[*session]struct{}{},
	}
	g.rows = newRows(g)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Start reads where channels are and begins to look after connections.
func (g *Gateway) Start(ctx context.Context) error {
	state, err := storage.Read(ctx, g.DB, eventlog.StateOf)
	if err != nil {
		return fmt.Errorf("read the event log: %w", err)
	}
	g.mu.Lock()
	g.epoch = state.SyncEpoch
	g.mu.Unlock()
	if err := g.readPlaces(ctx); err != nil {
		return err
	}
	if err := g.keeper.Start(ctx); err != nil {
		return fmt.Errorf("start the gateway's streams: %w", err)
	}
	g.unwake = g.Bus.Subscribe(g.woken)
	for _, run := range []func(){g.watch, g.checkCredentials, g.rows.run, g.sayTyping} {
		g.work.Go(run)
	}
	return nil
}

// Stop ends every connection with 4013, behind what it was sent already, and waits for everything.
func (g *Gateway) Stop(ctx context.Context) error {
	g.mu.Lock()
	g.stopping = true
	g.mu.Unlock()
	if g.unwake != nil {
		g.unwake()
	}
	failure := g.keeper.Stop(ctx)
	g.cancel()
	ended := make(chan struct{})
	go func() { g.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		return errors.Join(failure, fmt.Errorf("wait for the gateway: %w", ctx.Err()))
	}
	return errors.Join(failure, g.rows.finish(ctx))
}

// Stats is what waits for the gateway's connections at this moment.
func (g *Gateway) Stats() conn.Stats { return g.keeper.Stats() }

// Head is the number of the newest event that was delivered here.
func (g *Gateway) Head() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.head
}

// Upgrade takes a WebSocket connection and sends hello (ES-6.3.1, ES-6.3.2). It returns at once. An error is
// *conn.HandshakeError where the request is no proper handshake or too many are connected, and fault.Error where the
// origin is refused: nothing was answered then.
func (g *Gateway) Upgrade(w http.ResponseWriter, r *http.Request) error {
	if g.Origin != nil && !g.Origin(r) {
		return fault.New(code.Forbidden, "This origin may not connect.")
	}
	stream, err := g.keeper.UpgradeWebSocket(w, r, "")
	if err != nil {
		return err
	}
	g.greet(stream, address(r))
	return nil
}

// address is the gateway's address as the client wrote it, with http or https.
func address(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host + r.URL.EscapedPath()
}

// greet sends hello and begins to listen.
func (g *Gateway) greet(stream sink, url string) *session {
	now := g.Env.Now()
	s := &session{g: g, stream: stream, url: url, nonce: g.Auth.Nonce(), state: protocol.State{Since: now}}
	g.mu.Lock()
	g.sessions[s] = struct{}{}
	epoch, stopping := g.epoch, g.stopping
	g.mu.Unlock()
	stream.Send(blockOf(wire.OpHello, wire.Hello{
		HeartbeatIntervalMS: g.Limits.HeartbeatInterval.Milliseconds(), ResumeWindowMS: g.Limits.ResumeWindow.Milliseconds(),
		ProtocolVersions: protocol.Versions(), DPoPNonce: s.nonce, ServerTime: now.UTC(), SyncEpoch: epoch,
	}))
	if stopping {
		s.end(code.CloseServerRestart, "The server stops.")
	}
	stream.Run(conn.Handler{Message: s.receive, Closed: func(code.Close) { s.gone() }})
	return s
}

// woken takes wake-ups to those who follow them up.
func (g *Gateway) woken(wake signal.Wake) {
	switch wake.Topic {
	case signal.Identity:
		g.askCheck()
	case signal.Gateway:
		g.rows.lookAt(wake.ID)
	case signal.Typing:
		g.heardTyping(wake.ID)
	case "":
		g.askCheck()
		g.rows.lookAt("")
	default:
	}
}

func (g *Gateway) askCheck() {
	g.revocations.Add(1)
	select {
	case g.check <- struct{}{}:
	default: // asked already
	}
}

// resolution is how often connections are looked at: fine enough for the shortest of their times.
func (l Limits) resolution() time.Duration {
	return min(max(min(l.IdentifyTimeout, l.HeartbeatInterval, l.ReauthLeadTime)/8, 5*time.Millisecond), 250*time.Millisecond)
}

// watch lets time pass for the connections.
func (g *Gateway) watch() {
	ticker := time.NewTicker(g.Limits.resolution())
	defer ticker.Stop()
	var all []*session
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-ticker.C:
		}
		all = g.everybody(all[:0])
		for _, s := range all {
			s.step(protocol.Ticked{})
		}
		clear(all)
		if err := g.readPlaces(g.ctx); err != nil && g.ctx.Err() == nil {
			g.Log.Error("gateway: cannot read places", "error", err)
		}
	}
}

func (g *Gateway) everybody(into []*session) []*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.sessions {
		into = append(into, s)
	}
	return into
}
