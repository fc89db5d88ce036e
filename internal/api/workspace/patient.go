package workspace

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// progress is how long a client may send or take nothing of a file's content.
const progress = 20 * time.Second

// patientReader reads a body for as long as something comes.
type patientReader struct {
	body    io.Reader
	control *http.ResponseController
	env     *env.Env
}

func (r *patientReader) Read(into []byte) (int, error) {
	if err := r.control.SetReadDeadline(r.env.Now().Add(progress)); err != nil {
		return 0, fmt.Errorf("bound reading: %w", err)
	}
	return r.body.Read(into) //nolint:wrapcheck // io.EOF must stay what it is
}

// patientWriter writes an answer for as long as the client takes something of it.
type patientWriter struct {
	http.ResponseWriter

	env *env.Env
}

// Write writes one piece in its own time.
func (w *patientWriter) Write(text []byte) (int, error) {
	if err := http.NewResponseController(w.ResponseWriter).SetWriteDeadline(w.env.Now().Add(progress)); err != nil {
		return 0, fmt.Errorf("bound sending: %w", err)
	}
	return w.ResponseWriter.Write(text) //nolint:wrapcheck // it is the same writer
}

// statusWriter remembers the status of an answer that somebody else writes. A refusal it keeps to itself: the
// surface says that in its own way.
type statusWriter struct {
	patientWriter

	status int
}

// WriteHeader begins the answer.
func (w *statusWriter) WriteHeader(status int) {
	if w.status = status; status < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write goes on with the answer.
func (w *statusWriter) Write(text []byte) (int, error) {
	if w.status >= http.StatusBadRequest {
		return len(text), nil
	}
	return w.patientWriter.Write(text)
}
