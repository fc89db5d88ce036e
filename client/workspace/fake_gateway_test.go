package workspace_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// peer is the fake's end of a gateway connection.
type peer struct {
	f      *fake
	ctx    context.Context
	socket *websocket.Conn
	nonce  string

	mu      sync.Mutex // guards what follows
	beats   []wire.Heartbeat
	beatAt  []time.Time
	got     []wire.Frame
	deaf    bool // answers no heartbeat
	session string
}

func (p *peer) say(op string, d any) {
	_ = p.socket.Write(p.ctx, websocket.MessageText, raw(wire.Frame{Op: op, D: raw(d)}))
}

func (p *peer) event(e wire.Envelope) { p.say(wire.OpDispatch, e) }

func (p *peer) close(c code.Close, reason string) {
	_ = p.socket.Close(websocket.StatusCode(c), reason)
}

// read answers the next frame of the client.
func (p *peer) read() (wire.Frame, bool) {
	_, data, err := p.socket.Read(p.ctx)
	if err != nil {
		return wire.Frame{}, false
	}
	var frame wire.Frame
	if json.Unmarshal(data, &frame) != nil {
		return wire.Frame{}, false
	}
	p.mu.Lock()
	p.got = append(p.got, frame)
	p.mu.Unlock()
	return frame, true
}

func (p *peer) frames(op string) []wire.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	var of []wire.Frame
	for _, frame := range p.got {
		if frame.Op == op {
			of = append(of, frame)
		}
	}
	return of
}

func (f *fake) hello() wire.Hello {
	return wire.Hello{
		HeartbeatIntervalMS: 30_000, ResumeWindowMS: 300_000, ProtocolVersions: []int{1}, DPoPNonce: f.nonceNow(), ServerTime: time.Now().UTC(),
		SyncEpoch: f.epoch,
	}
}

// gateway serves one connection (ES-6.3).
func (f *fake) gateway(w http.ResponseWriter, r *http.Request) {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer socket.CloseNow()
	p := &peer{f: f, ctx: ctx, socket: socket, nonce: f.nonceNow()}
	f.mu.Lock()
	f.conns[p] = true
	greet := f.greet
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.conns, p)
		f.mu.Unlock()
	}()
	if greet != nil && greet(p) {
		return
	}
	p.say(wire.OpHello, f.hello())
	from, live, ok := p.enter()
	if !ok {
		return
	}
	go p.listen(cancel)
	p.deliver(from, live)
}

// enter takes identify or resume, and answers where deliveries begin and whether they are live at once.
func (p *peer) enter() (from int64, live, ok bool) {
	frame, read := p.read()
	if !read {
		return 0, false, false
	}
	var said struct {
		wire.Identify

		GatewaySessionID string `json:"gateway_session_id"`
	}
	_ = json.Unmarshal(frame.D, &said)
	if p.f.authenticate(said.AccessToken) == code.TokenExpired {
		p.close(code.CloseTokenExpired, "")
		return 0, false, false
	}
	if p.f.authenticate(said.AccessToken) != "" ||
		p.f.prove(nil, said.DPoP, http.MethodGet, baseURL+"/api/v1/gateway", said.AccessToken, p.nonce) != "" {
		p.close(code.CloseAuthentication, "")
		return 0, false, false
	}
	f := p.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if frame.Op == wire.OpResume {
		if !f.sessions[said.GatewaySessionID] {
			p.close(code.CloseSessionInvalid, "")
			return 0, false, false
		}
		p.session = said.GatewaySessionID
		p.say(wire.OpResumed, wire.Resumed{GatewaySessionID: p.session, HeadSeq: f.head, SyncEpoch: f.epoch, PermissionVersion: f.perm})
	} else {
		p.session = workspace.NewID()
		f.sessions[p.session] = true
		snapshot := f.snapshot()
		p.say(wire.OpReady, wire.Ready{
			GatewaySessionID: p.session, Principal: f.me, DeviceID: f.device, PermissionVersion: f.perm, HeadSeq: f.head, SyncEpoch: f.epoch,
			Snapshot: &snapshot,
		})
	}
	if said.Cursor == nil {
		return f.head, true, true
	}
	if reason := f.cannot(*said.Cursor, said.SyncEpoch); reason != "" {
		p.say(wire.OpResyncRequired, wire.Resync{Reason: reason, HeadSeq: f.head, SyncEpoch: f.epoch})
		return f.head, true, true
	}
	return *said.Cursor, false, true
}

func (f *fake) cannot(cursor int64, epoch string) wire.ResyncReason {
	switch {
	case epoch != "" && epoch != f.epoch:
		return wire.ResyncEpoch
	case cursor > f.head:
		return wire.ResyncFuture
	case cursor < f.oldest-1:
		return wire.ResyncOld
	default:
		return ""
	}
}

// deliver sends the log from a place on: first what was missed, by the permissions of now, in small pages with
// cursors; then what happens, as it was seen when it happened.
func (p *peer) deliver(at int64, live bool) {
	const page = 7
	head := int64(-1)
	for sent := 0; ; {
		p.f.mu.Lock()
		if head < 0 {
			head = p.f.head
		}
		news := p.f.news
		var batch []wire.Envelope
		next := at
		for _, event := range p.f.log {
			if event.Seq <= at || !live && (event.Seq > head || event.Seq > at+page) {
				continue
			}
			next = event.Seq
			if live && event.seen || !live && p.f.sees(event.Envelope) {
				batch = append(batch, event.Envelope)
			}
		}
		p.f.mu.Unlock()
		for _, event := range batch {
			p.event(event)
			sent++
		}
		moved := next > at
		at = next
		switch {
		case !live && at < head:
			p.say(wire.OpCursor, wire.Cursor{Seq: at})
			continue
		case !live:
			p.say(wire.OpCursor, wire.Cursor{Seq: at})
			p.say(wire.OpCatchupComplete, wire.CatchupComplete{HeadSeq: head})
			live = true
			continue
		case moved:
			p.say(wire.OpCursor, wire.Cursor{Seq: at})
			continue
		}
		select {
		case <-news:
		case <-p.ctx.Done():
			return
		}
	}
}

// listen answers what the client says.
func (p *peer) listen(end func()) {
	defer end()
	for {
		frame, ok := p.read()
		if !ok {
			return
		}
		switch frame.Op {
		case wire.OpHeartbeat:
			p.mu.Lock()
			var beat wire.Heartbeat
			_ = json.Unmarshal(frame.D, &beat)
			p.beats, p.beatAt = append(p.beats, beat), append(p.beatAt, time.Now())
			deaf := p.deaf
			p.mu.Unlock()
			if !deaf {
				p.say(wire.OpHeartbeatAck, wire.HeartbeatAck{})
			}
		case wire.OpReauth:
			var said wire.Reauth
			_ = json.Unmarshal(frame.D, &said)
			if refused := p.f.prove(nil, said.DPoP, http.MethodGet, baseURL+"/api/v1/gateway", said.AccessToken, p.nonce); refused != "" {
				p.say(wire.OpError, wire.OpFailed{Op: wire.OpReauth, Code: string(refused)})
			}
		}
	}
}

// peers answers the open connections.
func (f *fake) peers() []*peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	var open []*peer
	for p := range f.conns {
		open = append(open, p)
	}
	return open
}

// hangUp breaks all connections without a word.
func (f *fake) hangUp() {
	for _, p := range f.peers() {
		_ = p.socket.CloseNow()
	}
}

// closeAll closes all connections with a code.
func (f *fake) closeAll(c code.Close, reason string) {
	for _, p := range f.peers() {
		p.close(c, reason)
	}
}
