package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gobwas/ws/wsutil"

	client "github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const gatewayPath = "/api/v1/gateway"

// seat is a device of a person that is signed in.
type seat struct {
	key    *client.Key
	device string
	token  string
	// What its last connection to the gateway was told.
	session string
	cursor  int64
	epoch   string
}

// proof proves a request with the seat's token.
func (s *seat) proof(method, url, nonce string) (string, error) {
	return s.key.Prove(client.Proof{Method: method, URL: url, Token: s.token, Nonce: nonce})
}

// greeting is the frame a connection begins with.
type greeting func(s *seat, proof string) any

// identified begins a gateway session, which is live from where the log ends.
func identified(s *seat, proof string) any {
	return wire.Identify{AccessToken: s.token, DPoP: proof, DeviceID: s.device, ProtocolVersion: wire.ProtocolVersion}
}

// caughtUp begins one behind the seat's cursor.
func caughtUp(s *seat, proof string) any {
	frame, _ := identified(s, proof).(wire.Identify)
	frame.Cursor, frame.SyncEpoch = &s.cursor, s.epoch
	return frame
}

// resumed goes on with the last one.
func resumed(s *seat, proof string) any {
	return wire.Resume{GatewaySessionID: s.session, AccessToken: s.token, DPoP: proof, Cursor: s.cursor, SyncEpoch: s.epoch}
}

// sit connects every seat to the gateway at once, as greet says.
func (s *site) sit(ctx context.Context, seats []*seat, greet greeting, at func(*target)) (*viewers, error) {
	v := &viewers{}
	if err := s.admit(ctx, v, seats, greet, at); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func (s *site) admit(ctx context.Context, v *viewers, seats []*seat, greet greeting, at func(*target)) error {
	where := target{host: strings.TrimPrefix(s.hello, "http://"), path: gatewayPath, transport: byWebSocket}
	if at != nil {
		at(&where)
	}
	return v.admit(ctx, byWebSocket, len(seats), func(ctx context.Context, i int) (*viewer, error) {
		one, err := where.dial(ctx, "")
		if err != nil {
			return nil, err
		}
		one.gateway, one.seat = true, seats[i]
		if err := one.greet(s.hello+gatewayPath, seats[i], greet); err != nil {
			return nil, errors.Join(err, one.conn.Close())
		}
		return one, nil
	})
}

// arriving is how many connect at a time when it is not what is measured: a snapshot for each is made.
const arriving = 50

// gathered connects seats, some after the others, and waits until all are live.
func (s *site) gathered(ctx context.Context, seats []*seat, at func(*target)) (*viewers, error) {
	v := &viewers{}
	for some := range slices.Chunk(seats, arriving) {
		want := v.ready.Load() + int64(len(some))
		err := s.admit(ctx, v, some, identified, at)
		if err == nil {
			err = until(ctx, "everybody to be ready", patience, func() bool { return v.ready.Load() >= want })
		}
		if err != nil {
			v.close()
			return nil, err
		}
	}
	return v, nil
}

// greet waits for the server's first frame and answers it.
func (one *viewer) greet(url string, s *seat, greet greeting) error {
	frame, err := one.first()
	if err != nil {
		return err
	}
	var hello struct {
		Op string     `json:"op"`
		D  wire.Hello `json:"d"`
	}
	if err := json.Unmarshal(frame, &hello); err != nil || hello.Op != wire.OpHello {
		return fmt.Errorf("the gateway began with %q: %w", frame, err)
	}
	proof, err := s.proof("GET", url, hello.D.DPoPNonce)
	if err != nil {
		return err
	}
	said := greet(s, proof)
	op := wire.OpIdentify
	if _, is := said.(wire.Resume); is {
		op = wire.OpResume
	}
	encoded, err := json.Marshal(map[string]any{"op": op, "d": said})
	if err != nil {
		return err
	}
	return wsutil.WriteClientText(one.conn, encoded)
}

// first reads the first frame; what came behind it stays early.
func (one *viewer) first() ([]byte, error) {
	buffer := make([]byte, 4096)
	for {
		size, head := frameSize(one.early)
		if head > 0 && len(one.early) >= head+size {
			frame := one.early[head : head+size]
			one.early = one.early[head+size:]
			return frame, nil
		}
		n, err := one.conn.Read(buffer)
		one.early = append(one.early, buffer[:n]...)
		if err != nil {
			return nil, fmt.Errorf("read the first frame: %w", err)
		}
	}
}

// The beginnings of the frames that are looked at.
var (
	dispatchMark = []byte(`"op":"dispatch"`)
	readyMark    = []byte(`"op":"ready"`)
	caughtUpMark = []byte(`"op":"catchup.complete"`)
	occurredMark = []byte(`"occurred_at":"`)
)

// scanGateway counts the dispatches in data, and who says that it is live, and answers what is left.
func (v *viewers) scanGateway(one *viewer, data []byte) (events int, rest []byte) {
	for {
		size, head := frameSize(data)
		if head == 0 || len(data) < head+size {
			return events, data
		}
		frame := data[head : head+size]
		begin := frame[:min(len(frame), 40)]
		switch {
		case bytes.Contains(begin, dispatchMark):
			events++
			v.frameSize.Store(int64(size))
			one.noteOccurred(frame)
		case bytes.Contains(begin, readyMark):
			one.noteReady(frame)
			v.ready.Add(1)
		case bytes.Contains(begin, caughtUpMark):
			v.caughtUp.Add(1)
		}
		data = data[head+size:]
	}
}

// noteOccurred keeps how long an event took from its transaction to here.
func (one *viewer) noteOccurred(frame []byte) {
	if one.timed == nil {
		return
	}
	now := one.timed.Now()
	_, rest, _ := bytes.Cut(frame, occurredMark)
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	if at, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
		one.delays = append(one.delays, now.Sub(at))
	}
}

// noteReady keeps what ready says about the gateway session.
func (one *viewer) noteReady(frame []byte) {
	var ready struct {
		D wire.Ready `json:"d"`
	}
	if one.seat == nil || json.Unmarshal(frame, &ready) != nil {
		return
	}
	one.seat.session, one.seat.cursor, one.seat.epoch = ready.D.GatewaySessionID, ready.D.HeadSeq, ready.D.SyncEpoch
}

// poster sends requests of one seat over one connection.
type poster struct {
	*pipe

	seat  *seat
	base  string
	nonce string
	args  []byte
}

// desk opens a connection for a seat's requests.
func (s *site) desk(ctx context.Context, one *seat, nonce string) (*poster, error) {
	opened, err := s.dial(ctx, one.device)
	if err != nil {
		return nil, err
	}
	host := strings.TrimPrefix(s.hello, "http://")
	p := &poster{pipe: opened, seat: one, base: s.hello, nonce: nonce}
	p.args = fmt.Appendf(nil, " HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: DPoP %s\r\nDPoP: ", host, one.token)
	return p, nil
}

// send posts a body to a path of the surface.
func (p *poster) send(path string, body []byte) error {
	proof, err := p.seat.proof("POST", p.base+path, p.nonce)
	if err != nil {
		return err
	}
	p.head = string(p.args) + proof + "\r\n"
	return p.post(path, body)
}

// ask is send with the answer's body.
func (p *poster) ask(path string, body []byte) ([]byte, error) {
	p.want = true
	defer func() { p.want = false }()
	err := p.send(path, body)
	return p.body, err
}

// message is the body of a message of n characters.
func message(n int) []byte {
	return fmt.Appendf(nil, `{"client_msg_id":"%s","content_md":"%s"}`, client.NewID(), strings.Repeat("x", n))
}
