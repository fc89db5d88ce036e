package sessions

import (
	"errors"
	"net/http"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// Bounds of what all requests together may hold, so that no client, however slow, makes the server
// grow. Past a bound a request is refused and may be tried again.
const (
	maxBodies  = 256 << 20 // bytes of bodies that were received and are not answered yet
	maxAnswers = 256 << 20 // bytes of large answers that are not sent yet
)

// body reads a request's body. Release must be called once the request has been handled.
func (a *API) body(w http.ResponseWriter, r *http.Request) (data []byte, release func(), err error) {
	data, release, err = a.bodies.ReadBody(w, r, a.MaxBodyBytes)
	if err != nil {
		return nil, release, a.unreadable(err)
	}
	return data, release, nil
}

func (a *API) unreadable(err error) error {
	switch {
	case errors.Is(err, guard.ErrBusy):
		return fault.New(code.Unavailable, "The server is busy with other large requests; try again.")
	case errors.Is(err, guard.ErrTooLarge):
		return fault.New(code.PayloadTooLarge, "The body is larger than %d bytes.", a.MaxBodyBytes)
	default:
		return fault.New(code.BadRequest, "The body could not be read.").WithCause(err)
	}
}

// send writes an encoded body.
func (a *API) send(w http.ResponseWriter, body []byte) {
	if err := guard.Send(w, a.Env, body); err != nil {
		a.Log.Debug("answer not taken", "error", err) // the client has gone; there is nobody else to tell
	}
}
