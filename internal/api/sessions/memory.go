package sessions

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// Bounds of what all requests together may hold, so that no client, however slow, makes the server
// grow. Past a bound a request is refused and may be tried again.
const (
	maxBodies   = 256 << 20 // bytes of bodies that were received and are not answered yet
	maxAnswers  = 256 << 20 // bytes of large answers that are not sent yet
	largeAnswer = 256 << 10 // an answer that counts; also how much of it is sent at a time
	firstRead   = 16 << 10  // what a body is given before anything of it has come
	// progress is how long a client may take nothing of an answer.
	progress = 20 * time.Second
)

// budget is bytes that may be held at once.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes, or refuses.
func (b *budget) take(n int64) error {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return fault.New(code.Unavailable, "The server is busy with other large requests; try again.")
	}
	return nil
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// body reads a request's body, growing with what has come and never with what was announced. Release
// must be called once the request has been handled.
func (a *API) body(w http.ResponseWriter, r *http.Request) (data []byte, release func(), err error) {
	reader := http.MaxBytesReader(w, r.Body, a.MaxBodyBytes)
	held := int64(0)
	release = func() { a.bodies.give(held) }
	data = make([]byte, 0, firstRead)
	for {
		if len(data) == cap(data) {
			more := int64(cap(data))
			if err := a.bodies.take(more); err != nil {
				return nil, release, err
			}
			held += more
			grown := make([]byte, len(data), 2*cap(data))
			copy(grown, data)
			data = grown
		}
		n, err := reader.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, release, nil
		case err != nil:
			return nil, release, a.unreadable(err)
		}
	}
}

func (a *API) unreadable(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return fault.New(code.PayloadTooLarge, "The body is larger than %d bytes.", a.MaxBodyBytes)
	}
	return fault.New(code.BadRequest, "The body could not be read.").WithCause(err)
}

// send writes an encoded body. A large one goes in pieces, each of which the client must take in time.
func (a *API) send(w http.ResponseWriter, body []byte) {
	if len(body) < largeAnswer {
		_, _ = w.Write(body) // the client has gone; there is nobody to tell
		return
	}
	control := http.NewResponseController(w)
	for len(body) > 0 {
		piece := body[:min(len(body), largeAnswer)]
		body = body[len(piece):]
		if err := control.SetWriteDeadline(a.Env.Now().Add(progress)); err != nil {
			a.Log.Debug("no deadline for an answer", "error", err)
		}
		if _, err := w.Write(piece); err != nil {
			return // the client has gone, or takes nothing
		}
	}
}
