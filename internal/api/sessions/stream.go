package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/session/live"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// stream answers a session as server-sent events (SS-STR-1). Nothing can be said on it later, so that a client
// without a WebSocket says by ?attention=1 that a person looks at it.
func (a *API) stream(c *call, w http.ResponseWriter) error {
	id, err := a.Sessions.Find(c.Context(), c.by, c.PathValue("id"))
	if err != nil {
		return err
	}
	stream, err := a.Keeper.OpenSSE(w, c.Request, w.Header())
	if err != nil {
		a.handshakeFailed(w, c.Request, err)
		return nil
	}
	viewer := a.Hub.Open(c.by, id, c.cursor(), live.Stance{Attention: c.flag("attention")}, stream)
	stream.Run(conn.Handler{Closed: func(code.Close) { viewer.Close() }})
	return nil
}

// cursor is where the client left off: after, or the Last-Event-ID of a reader of events (SS-STR-3).
func (c *call) cursor() int64 {
	if c.URL.Query().Has("after") {
		return c.number("after", 0, 0, largestInteger)
	}
	return clamped(c.Header.Get("Last-Event-ID"), 0, 0, largestInteger)
}

func (a *API) handshakeFailed(w http.ResponseWriter, r *http.Request, err error) {
	failure := new(conn.HandshakeError)
	if !errors.As(err, &failure) {
		return // the connection is gone
	}
	maps.Copy(w.Header(), failure.Header)
	refusal := fault.New(code.BadRequest, "%s", failure.Reason)
	if failure.Status >= http.StatusInternalServerError {
		refusal = fault.New(code.Unavailable, "%s", failure.Reason)
	}
	a.write(w, r, reply{status: failure.Status, body: wire.Error{Error: errorBody(refusal)}})
}

// socket answers a session as a WebSocket, which also takes controls, events and presence (SS-STR-5).
func (a *API) socket(c *call, w http.ResponseWriter) error {
	if !a.origins.Allowed(c.Request) {
		return fault.New(code.Forbidden, "This origin is not allowed; see http.cors_origins.")
	}
	id, err := a.Sessions.Find(c.Context(), c.by, c.PathValue("id"))
	if err != nil {
		return err
	}
	stream, err := a.Keeper.UpgradeWebSocket(w, c.Request, wire.Subprotocol)
	if err != nil {
		a.handshakeFailed(w, c.Request, err)
		return nil
	}
	// Nothing of the request is kept: it would cost an idle viewer more than everything else.
	up := &upstream{api: a, by: c.by, sessionID: id, sink: stream, viewer: a.Hub.Open(c.by, id, c.cursor(), live.Stance{}, stream)}
	stream.Run(conn.Handler{Message: up.message, Closed: func(code.Close) { up.viewer.Close() }})
	return nil
}

// refuseStream refuses a stream: by HTTP, or for a browser's WebSocket by upgrade and close
// (SS-STR-6). It answers the status as metrics see it.
func (a *API) refuseStream(w http.ResponseWriter, r *http.Request, route Route, err error) int {
	if !credentialsOf(r, route).browser {
		return a.refuse(w, r, err)
	}
	refusal := fault.From(err)
	if failure := a.Keeper.Refuse(w, r, wire.Subprotocol, closeCode(refusal.Code), refusal.Message); failure != nil {
		a.handshakeFailed(w, r, failure)
	}
	return code.Of(refusal.Code).Status
}

// closeCode is what a browser is told instead of a status.
func closeCode(c code.Code) code.Close {
	switch code.Of(c).Status {
	case http.StatusBadRequest:
		return code.CloseBadRequest
	case http.StatusUnauthorized:
		return code.CloseBadKey
	case http.StatusForbidden:
		return code.CloseNoAccess
	case http.StatusNotFound:
		return code.CloseNotFound
	case http.StatusTooManyRequests:
		return code.CloseTooSlow
	default:
		return code.CloseInternal
	}
}

// upstream is what a client sends on its WebSocket.
type upstream struct {
	api       *API
	by        session.Caller
	sessionID string
	sink      *conn.Stream
	viewer    *live.Stream
}

// message handles one message and answers it, if it has a ref or is wrong.
func (u *upstream) message(text []byte) {
	f, err := parseForm(text)
	var ref json.RawMessage
	var body any
	if err == nil {
		ref, err = reference(f)
	}
	if err == nil {
		body, err = u.handle(f)
	}
	switch {
	case err != nil:
		u.answer(wire.FrameError, ref, map[string]any{"error": detailedBody(u.logged(err))})
	case ref != nil:
		u.answer(wire.FrameAck, ref, body)
	default:
	}
}

// reference answers the ref by which a client knows its answers: a short string or a number.
func reference(f *form) (json.RawMessage, error) {
	value, there := f.value("ref")
	if !there {
		return nil, nil
	}
	if kind := value.Kind(); (kind != '"' && kind != '0') || len(value) > 8*wire.MaxID {
		return nil, fault.BadField("ref", "must be a string of up to 128 characters or a number")
	}
	return json.RawMessage(value), nil
}

// handle carries a message out, with the rights its sender has now.
func (u *upstream) handle(f *form) (any, error) {
	kind := f.require("t", 0, wire.MaxText)
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := u.api.take(u.by.KeyID); err != nil {
		return nil, err
	}
	ctx := context.Background() // what a client has sent is carried out, also when it leaves
	alive, err := u.api.Identity.Alive(ctx, u.by.KeyID, u.by.UserID, u.by.DeviceID)
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, fault.New(code.InvalidAPIKey, "The key, user or device is no longer valid.")
	}
	switch kind {
	case wire.FrameControl:
		return u.api.control(ctx, u.by, u.sessionID, f)
	case wire.FrameEvents:
		return u.api.append(ctx, u.by, u.sessionID, f)
	case wire.FramePresence:
		return u.presence(f)
	default:
		return nil, fault.BadField("t", "must be control, events or presence")
	}
}

// presence takes what the client says of the person before it; what it does not say stays as it is.
func (u *upstream) presence(f *form) (any, error) {
	driving, attention := f.flag("driving"), f.flag("attention")
	if driving == nil && attention == nil && len(f.problems.fields) == 0 {
		f.badf("driving", "or attention is required")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	u.viewer.Say(driving, attention)
	return nil, nil //nolint:nilnil // the acknowledgement is all there is to say
}

func (u *upstream) logged(err error) *fault.Error {
	refusal := fault.From(err)
	if code.Of(refusal.Code).Status >= http.StatusInternalServerError {
		u.api.Log.Error("message failed", "session", u.sessionID, "error", err)
	}
	return refusal
}

// answer sends an ack or error frame that carries ref and the members of body.
func (u *upstream) answer(name string, ref json.RawMessage, body any) {
	object := []byte("{")
	if ref != nil {
		object = append(append(object, `"ref":`...), ref...)
	}
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			panic(err) // the objects of the protocol always encode
		}
		if ref != nil {
			object = append(object, ',')
		}
		object = append(object, bytes.TrimSuffix(encoded[1:], []byte("}"))...)
	}
	u.sink.Send(conn.NewBlock(conn.Frame{Name: name, Object: append(object, '}')}))
}
