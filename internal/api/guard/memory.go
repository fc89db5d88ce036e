package guard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	// LargeAnswer is the size of an answer that counts against a budget; also how much of it is sent at a time.
	LargeAnswer = 256 << 10
	firstRead   = 16 << 10 // what a body is given before anything of it has come
	// progress is how long a client may take nothing of an answer.
	progress = 20 * time.Second
)

// Why a body was not read.
var (
	ErrBusy     = errors.New("other large requests hold the memory")
	ErrTooLarge = errors.New("the body is too large")
)

// Budget is bytes that all requests together may hold.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a Budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n bytes, or answers ErrBusy.
func (b *Budget) Take(n int64) error {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return ErrBusy
	}
	return nil
}

// Give returns n bytes.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// ReadBody reads a request's body of most bytes at the most, growing with what has come and never with what was
// announced. It answers ErrTooLarge, ErrBusy, or why the body could not be read. Release must be called once
// the request has been handled.
func (b *Budget) ReadBody(w http.ResponseWriter, r *http.Request, most int64) (data []byte, release func(), err error) {
	reader := http.MaxBytesReader(w, r.Body, most)
	held := int64(0)
	release = func() { b.Give(held) }
	data = make([]byte, 0, firstRead)
	for {
		if len(data) == cap(data) {
			more := int64(cap(data))
			if err := b.Take(more); err != nil {
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
			return nil, release, unreadable(err)
		}
	}
}

func unreadable(err error) error {
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return ErrTooLarge
	}
	return fmt.Errorf("read body: %w", err)
}

// Send writes an encoded body. A large one goes in pieces, each of which the client must take in time. The
// error says that the client has gone, or takes nothing.
func Send(w http.ResponseWriter, e *env.Env, body []byte) error {
	if len(body) < LargeAnswer {
		if _, err := w.Write(body); err != nil {
			return fmt.Errorf("send answer: %w", err)
		}
		return nil
	}
	control := http.NewResponseController(w)
	for len(body) > 0 {
		piece := body[:min(len(body), LargeAnswer)]
		body = body[len(piece):]
		if err := control.SetWriteDeadline(e.Now().Add(progress)); err != nil {
			return fmt.Errorf("bound sending: %w", err)
		}
		if _, err := w.Write(piece); err != nil {
			return fmt.Errorf("send answer: %w", err)
		}
	}
	return nil
}
