package conn

import (
	"net/http"
)

// OpenSSE answers 200 with an event stream (SS-STR-1) and takes the connection; header is sent with
// it and may be nil. The body is chunked for HTTP/1.1, and ends with the connection for HTTP/1.0.
// Errors are those of UpgradeWebSocket.
func (k *Keeper) OpenSSE(w http.ResponseWriter, r *http.Request, header http.Header) (*Stream, error) {
	head := header.Clone()
	if head == nil {
		head = make(http.Header)
	}
	head.Set("Content-Type", "text/event-stream; charset=utf-8")
	head.Set("Cache-Control", "no-cache")
	head.Set("X-Accel-Buffering", "no")
	head.Set("Connection", "close") // the connection is not given back
	head.Set("Date", k.env.Now().UTC().Format(http.TimeFormat))
	if !r.ProtoAtLeast(1, 1) {
		return k.hijack(w, "HTTP/1.0 200 OK", head, SSE, formatSSEUnframed)
	}
	head.Set("Transfer-Encoding", "chunked")
	return k.hijack(w, "HTTP/1.1 200 OK", head, SSE, formatSSE)
}
