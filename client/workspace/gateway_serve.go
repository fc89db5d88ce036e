package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// pageEvents is after how many events that follow each other without a pause the position is stored.
	pageEvents = 500
	// maxReauths is how often a refused reauth is tried again; then the deadline stands.
	maxReauths = 3
)

// serving is what the goroutine of Run knows about a connection.
type serving struct {
	*connection

	at       Position
	last     int64 // of the events of this connection
	unstored int   // events and cursors since the last Page
	live     bool
}

// serve signs in and hands over what comes, until the connection ends.
func (c *connection) serve(memory *reconnect, from Position) error {
	s := &serving{connection: c, at: from}
	c.seq.Store(from.Seq)
	if err := s.signIn(memory, from); err != nil {
		return err
	}
	c.seq.Store(s.at.Seq)
	c.g.attach(c)
	for {
		if len(c.frames) == 0 || s.unstored >= pageEvents {
			if err := s.page(); err != nil {
				return err
			}
		}
		frame, err := c.next(c.ctx)
		if err != nil {
			return err
		}
		if err := s.take(frame); err != nil {
			return err
		}
	}
}

// signIn resumes the session of before where that is possible, and identifies otherwise.
func (s *serving) signIn(memory *reconnect, from Position) error {
	ctx, stop := context.WithTimeout(s.ctx, s.g.options.DialTimeout)
	defer stop()
	token, proof, err := s.g.prove(ctx, s.hello.DPoPNonce)
	if err != nil {
		return err
	}
	resuming := ""
	if from.Known() {
		resuming = memory.resumable(time.Now())
	}
	if resuming != "" {
		err = s.write(wire.OpResume, s.g.resume(resuming, token, proof, from))
	} else {
		err = s.write(wire.OpIdentify, s.g.identify(token, proof, from))
	}
	if err != nil {
		return s.cause(err)
	}
	for {
		frame, err := s.next(ctx)
		if err != nil {
			return err
		}
		switch frame.Op {
		case wire.OpReady:
			return s.ready(memory, frame, from)
		case wire.OpResumed:
			return s.resumed(memory, frame)
		case wire.OpError:
			return s.refusedSignIn(frame)
		default:
			s.g.sink.Unknown(s.run, frame.Op, frame.D)
		}
	}
}

// cause answers why the connection ended, when a write found that out first.
func (c *connection) cause(err error) error {
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx) //nolint:wrapcheck // as in next
	case <-time.After(time.Second): // the reader learns the close code a moment later
		return err
	}
}

func (s *serving) refusedSignIn(frame wire.Frame) error {
	failed, err := decodeD[wire.OpFailed](frame)
	if err != nil {
		return err
	}
	s.g.sink.Failed(s.run, failed)
	problem := &Problem{Wait: min(time.Duration(failed.RetryAfter)*time.Second, maxWait)}
	problem.Code, problem.Detail, problem.Status = failed.Code, failed.Detail, code.Of(code.Code(failed.Code)).Status
	return fmt.Errorf("sign in to gateway: %w", problem)
}

func decodeD[T any](frame wire.Frame) (T, error) {
	var d T
	if err := json.Unmarshal(frame.D, &d); err != nil {
		return d, fmt.Errorf("%w: decode %s: %w", errFrame, frame.Op, err)
	}
	return d, nil
}

// prove answers an access token and the proof that goes with it (ES-6.3.3).
func (g *Gateway) prove(ctx context.Context, nonce string) (token, proof string, err error) {
	if token, err = g.client.auth.token(ctx, ""); err != nil {
		return "", "", err
	}
	proof, err = g.client.proof(http.MethodGet, gatewayPath, token, nonce)
	return token, proof, err
}

func (g *Gateway) identify(token, proof string, from Position) wire.Identify {
	info := g.options.Info
	asked := wire.Identify{DPoP: proof, ProtocolVersion: wire.ProtocolVersion, Client: &info}
	if g.client.config.APIToken != "" {
		asked.APIToken, asked.Consumer = token, g.options.Consumer
	} else {
		asked.AccessToken, asked.DeviceID = token, g.client.config.Device.ID
	}
	if from.Known() {
		asked.Cursor, asked.SyncEpoch = &from.Seq, from.Epoch
	}
	return asked
}

func (g *Gateway) resume(session, token, proof string, from Position) wire.Resume {
	asked := wire.Resume{GatewaySessionID: session, DPoP: proof, Cursor: from.Seq, SyncEpoch: from.Epoch}
	if g.client.config.APIToken != "" {
		asked.APIToken = token
	} else {
		asked.AccessToken = token
	}
	return asked
}

func (s *serving) window() time.Duration {
	return time.Duration(s.hello.ResumeWindowMS) * time.Millisecond
}

// signedIn begins the heartbeats: a snapshot may take longer to load than a server waits for one.
func (s *serving) signedIn(memory *reconnect, session string) {
	memory.established(session, s.window())
	s.own.Go(s.keep)
	s.g.enter(CatchingUp)
}

func (s *serving) ready(memory *reconnect, frame wire.Frame, from Position) error {
	ready, err := decodeD[wire.Ready](frame)
	if err != nil {
		return err
	}
	s.signedIn(memory, ready.GatewaySessionID)
	if s.at, err = s.g.sink.Ready(s.ctx, ready, from); err != nil {
		return s.unfinished(err)
	}
	if from.Known() {
		return nil
	}
	s.unstored++
	return s.caughtUp()
}

func (s *serving) resumed(memory *reconnect, frame wire.Frame) error {
	resumed, err := decodeD[wire.Resumed](frame)
	if err != nil {
		return err
	}
	s.signedIn(memory, resumed.GatewaySessionID)
	return s.unfinished(s.g.sink.Resumed(s.ctx, resumed))
}

// caughtUp stores the position and says that the connection is live.
func (s *serving) caughtUp() error {
	s.live = true
	if err := s.page(); err != nil {
		return err
	}
	s.g.enter(Live)
	return sunk(s.g.sink.CaughtUp(s.run))
}

// page lets the sink store the position, if it has moved.
func (s *serving) page() error {
	if s.unstored == 0 {
		return nil
	}
	s.unstored = 0
	return sunk(s.g.sink.Page(s.run, s.at))
}

// take handles one frame.
func (s *serving) take(frame wire.Frame) error {
	switch frame.Op {
	case wire.OpDispatch:
		return s.dispatch(frame)
	case wire.OpCursor:
		return s.cursor(frame)
	case wire.OpCatchupComplete:
		if s.live {
			return nil
		}
		return s.caughtUp() // its head_seq may lie beyond what was checked: only cursor frames move the position
	case wire.OpResyncRequired:
		return s.resync(frame)
	case wire.OpReauthRequired:
		return s.reauth(frame)
	case wire.OpError:
		return s.failed(frame)
	default:
		s.g.sink.Unknown(s.run, frame.Op, frame.D)
		return nil
	}
}

// unfinished is sunk for what asks the server: where its context ended with the connection nothing is wrong with the sink,
// and the next connection asks again.
func (s *serving) unfinished(err error) error {
	if s.ctx.Err() != nil && errors.Is(err, s.ctx.Err()) {
		return context.Cause(s.ctx) //nolint:wrapcheck // as in next
	}
	return sunk(err)
}

func (s *serving) advance(seq int64) {
	s.at.Seq = seq
	s.seq.Store(seq)
	s.unstored++
}

// dispatch hands an event over. Those up to the cursor were handed over before (ES-9.2).
func (s *serving) dispatch(frame wire.Frame) error {
	event, err := decodeEvent(frame.D)
	if errors.Is(err, errFrame) {
		return err
	}
	if err != nil {
		s.violated("ES-2.2", err.Error())
	}
	if !event.Durable() {
		if !s.live {
			s.violated("ES-7.2", fmt.Sprintf("ephemeral %s before catchup.complete", event.Type))
		}
		s.g.sink.Ephemeral(s.run, event)
		return nil
	}
	if event.Seq <= s.last {
		s.violated("ES-10", fmt.Sprintf("event %d came after %d", event.Seq, s.last))
		return nil
	}
	s.last = event.Seq
	if event.Seq <= s.at.Seq {
		return nil
	}
	if err := s.g.sink.Event(s.run, event); err != nil {
		return sunk(err)
	}
	s.advance(event.Seq)
	return nil
}

// cursor moves the position over events that are not visible (ES-7.1), and ends a page.
func (s *serving) cursor(frame wire.Frame) error {
	cursor, err := decodeD[wire.Cursor](frame)
	if err != nil {
		return err
	}
	if cursor.Seq < s.last {
		s.violated("ES-7.1", fmt.Sprintf("cursor %d after event %d", cursor.Seq, s.last))
		return nil
	}
	if cursor.Seq > s.at.Seq {
		s.advance(cursor.Seq)
	}
	return s.page()
}

func (s *serving) resync(frame wire.Frame) error {
	why, err := decodeD[wire.Resync](frame)
	if err != nil {
		return err
	}
	if s.at, err = s.g.sink.Resync(s.ctx, why); err != nil {
		return s.unfinished(err)
	}
	s.advance(s.at.Seq)
	return s.caughtUp()
}

// reauth gets a new token and gives it to the connection (ES-6.3.6). It works beside what is delivered.
func (s *serving) reauth(frame wire.Frame) error {
	wanted, err := decodeD[wire.ReauthRequired](frame)
	if err != nil {
		return err
	}
	s.auths.Store(0)
	s.g.client.noteNonce(wanted.DPoPNonce)
	s.own.Go(func() { s.renew(wanted.DPoPNonce) })
	return nil
}

func (c *connection) renew(nonce string) {
	err := c.g.client.Refresh(c.ctx)
	if err == nil {
		var token, proof string
		if token, proof, err = c.g.prove(c.ctx, nonce); err == nil {
			c.say(wire.OpReauth, wire.Reauth{AccessToken: token, DPoP: proof})
			return
		}
	}
	if c.ctx.Err() == nil {
		c.g.options.Report(fmt.Errorf("renew the token of the connection: %w", err))
	}
}

// failed hands a refusal on. A refused reauth is tried again; the deadline stands.
func (s *serving) failed(frame wire.Frame) error {
	failed, err := decodeD[wire.OpFailed](frame)
	if err != nil {
		return err
	}
	if failed.Op == wire.OpReauth && s.auths.Add(1) < maxReauths {
		s.own.Go(func() { s.renew(s.g.client.currentNonce()) })
	}
	s.g.sink.Failed(s.run, failed)
	return nil
}

func (s *serving) violated(rule, what string) { s.g.options.Report(&Violation{Rule: rule, What: what}) }
