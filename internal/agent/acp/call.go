package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"

	acpsdk "github.com/coder/acp-go-sdk"
)

// call is the request of ours that is open. There is never more than one.
type call struct {
	id       string        // as it was written, "" before that
	prompt   bool          // it is a session/prompt
	answered bool          // the agent has answered it
	settled  chan struct{} // closed when its answer is in force
}

// ask sends a request and waits for its answer, which settle puts in force before any later message of the agent
// is looked at. When ctx ends first, the place of the request stays taken until the agent answers or ends.
func ask[T any](ctx context.Context, a *Agent, what, method string, params any, settle func(T, error)) (T, error) {
	var none T
	select {
	case a.slot <- struct{}{}:
	default:
		return none, ErrBusy
	}
	type answer struct {
		value T
		err   error
		given bool // by the agent; else the error is that none came
	}
	answers := make(chan answer, 1)
	open := &call{prompt: method == acpsdk.AgentMethodSessionPrompt, settled: make(chan struct{})}
	a.mu.Lock()
	if err := a.refuses(); err != nil {
		a.mu.Unlock()
		<-a.slot
		return none, a.failed(ctx, what, err)
	}
	a.call, a.cancelled = open, false
	a.calls.Add(1)
	a.mu.Unlock()
	go func() { //nolint:gosec // it lives as long as the request, which ctx may abandon
		defer a.calls.Done()
		value, err := acpsdk.SendRequest[T](a.conn, context.Background(), method, params) // it ends with the connection
		settle(value, err)
		a.mu.Lock()
		a.call = nil
		given := open.answered
		a.mu.Unlock()
		close(open.settled)
		<-a.slot
		answers <- answer{value, err, given}
	}()
	select {
	case got := <-answers:
		switch {
		case got.err == nil:
			return got.value, nil
		case got.given: // also when the agent has ended since
			return none, a.said(what, got.err)
		default:
			return none, a.failed(ctx, what, got.err)
		}
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// refuses answers why nothing may be asked of the agent any more, nil when it may; mu is held.
func (a *Agent) refuses() error {
	switch {
	case a.stopping:
		return ErrStopped
	case a.over:
		return errOver
	default:
		return nil
	}
}

// failed answers why a request got no result: what ended the agent, if it has ended or does not listen any more.
func (a *Agent) failed(ctx context.Context, what string, err error) error {
	if errors.Is(err, ErrStopped) {
		return err
	}
	select {
	case <-a.conn.Done():
	case <-a.deaf:
	default:
		return a.said(what, err)
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := a.Err(); err != nil {
		return err
	}
	return ErrStopped
}

// awaited answers what is closed when the answer with this id is in force; nil when nobody waits for it.
func (a *Agent) awaited(id json.RawMessage) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.call == nil || a.call.id != string(id) {
		return nil
	}
	a.call.answered = true
	return a.call.settled
}

// outgoing is where the SDK writes, one message at a time. It learns the number that the SDK gave to a request,
// and when an answer to the agent is out of our hands.
type outgoing struct {
	agent *Agent
	stdin io.Writer
}

// Write writes one message with its newline.
func (o *outgoing) Write(line []byte) (int, error) {
	id, method := head(line)
	if method == "" {
		defer o.agent.gate.answered()
	} else if id != "" {
		o.agent.numbered(id)
	}
	n, err := o.stdin.Write(line)
	if err != nil {
		o.agent.unheard()
	}
	return n, err //nolint:wrapcheck // the SDK wraps it
}

// unheard sees that the agent has closed its stdin, or has ended: if it goes on it is ended, for it can be told
// nothing any more.
func (a *Agent) unheard() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.deaf:
		return
	default:
	}
	close(a.deaf)
	if a.refuses() == nil {
		a.calls.Go(a.closed)
	}
}

func (a *Agent) numbered(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.call != nil && a.call.id == "" {
		a.call.id = id
	}
}

// head reads id and method of a message of ours without reading it whole: the SDK writes them first, and a
// response has no method.
func head(line []byte) (id, method string) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	if _, err := decoder.Token(); err != nil {
		return "", ""
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return id, ""
		}
		switch name {
		case "jsonrpc", "id":
			var value json.RawMessage
			if decoder.Decode(&value) != nil {
				return id, ""
			}
			if name == "id" {
				id = string(value)
			}
		case "method":
			_ = decoder.Decode(&method)
			return id, method
		default:
			return id, ""
		}
	}
	return id, ""
}

// warnings passes on what the SDK logs from warnings up: the rest is said here, better.
type warnings struct{ slog.Handler }

// Enabled says whether a record of this level is passed on.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
