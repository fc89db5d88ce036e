package conn

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // named by RFC 6455 section 4.2.2; it protects nothing
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/cairnsync/cairn/wire/code"
)

// HandshakeError is a request that cannot become a stream. The caller answers it with Status and
// Header; nothing has been written.
type HandshakeError struct {
	Status int
	Header http.Header // may be nil
	Reason string      // public
}

// Error answers the reason.
func (e *HandshakeError) Error() string { return e.Reason }

// acceptKey is what a client's key is hashed with (RFC 6455 section 1.3).
const acceptKey = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// UpgradeWebSocket answers a WebSocket handshake (RFC 6455 section 4.2) and takes the connection.
// The subprotocol is answered if the client offers it; no extension ever is. The origin is the
// caller's to check. A request that is no proper handshake, or a keeper that takes no more streams,
// is a *HandshakeError; any other error means that the connection is gone. The HTTP handler may
// return at once; r's context is then cancelled and is none of the stream's.
func (k *Keeper) UpgradeWebSocket(w http.ResponseWriter, r *http.Request, subprotocol string) (*Stream, error) {
	if err := checkHandshake(r); err != nil {
		return nil, err
	}
	head := make(http.Header)
	head.Set("Upgrade", "websocket")
	head.Set("Connection", "Upgrade")
	head.Set("Sec-WebSocket-Accept", accept(r.Header.Get("Sec-WebSocket-Key")))
	if subprotocol != "" && hasToken(r.Header, "Sec-WebSocket-Protocol", subprotocol) {
		head.Set("Sec-WebSocket-Protocol", subprotocol)
	}
	return k.hijack(w, "HTTP/1.1 101 Switching Protocols", head, WebSocket, formatWebSocket)
}

// Refuse upgrades and closes at once with c and reason: a browser cannot read a refused handshake
// (SS-STR-6). Its errors are those of UpgradeWebSocket.
func (k *Keeper) Refuse(w http.ResponseWriter, r *http.Request, subprotocol string, c code.Close, reason string) error {
	s, err := k.UpgradeWebSocket(w, r, subprotocol)
	if err != nil {
		return err
	}
	s.Run(Handler{})
	s.Close(c, reason)
	return nil
}

func checkHandshake(r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.Method != http.MethodGet:
		return &HandshakeError{http.StatusMethodNotAllowed, http.Header{"Allow": {http.MethodGet}}, "A WebSocket begins with GET."}
	case !hasTokenFold(r.Header, "Upgrade", "websocket"), !hasTokenFold(r.Header, "Connection", "upgrade"):
		return upgradeRequired("This is a WebSocket; the request does not ask for an upgrade.")
	case !r.ProtoAtLeast(1, 1) || r.ProtoMajor > 1:
		return badHandshake("A WebSocket begins with HTTP/1.1.")
	case r.Host == "":
		return badHandshake("The Host header is missing.")
	case len(r.Header.Values("Sec-WebSocket-Version")) != 1, r.Header.Get("Sec-WebSocket-Version") != "13":
		return upgradeRequired("Only version 13 of WebSocket is understood.")
	case len(r.Header.Values("Sec-WebSocket-Key")) != 1, err != nil, len(key) != 16:
		return badHandshake("The Sec-WebSocket-Key header must be 16 bytes in base64.")
	default:
		return nil
	}
}

func badHandshake(reason string) error {
	return &HandshakeError{Status: http.StatusBadRequest, Reason: reason}
}

func upgradeRequired(reason string) error {
	return &HandshakeError{
		Status: http.StatusUpgradeRequired,
		Header: http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}},
		Reason: reason,
	}
}

func accept(key string) string {
	sum := sha1.Sum([]byte(key + acceptKey)) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(sum[:])
}

func hasToken(h http.Header, name, token string) bool {
	return hasTokenThat(h, name, func(have string) bool { return have == token })
}

func hasTokenFold(h http.Header, name, token string) bool {
	return hasTokenThat(h, name, func(have string) bool { return strings.EqualFold(have, token) })
}

func hasTokenThat(h http.Header, name string, is func(string) bool) bool {
	for _, line := range h.Values(name) {
		for token := range strings.SplitSeq(line, ",") {
			if is(strings.TrimSpace(token)) {
				return true
			}
		}
	}
	return false
}

// hijack takes the request's connection, writes the answer's head and opens the stream.
func (k *Keeper) hijack(w http.ResponseWriter, status string, head http.Header, kind Kind, f format) (*Stream, error) {
	k.mu.Lock()
	busy := k.busy()
	k.mu.Unlock()
	if busy {
		return nil, &HandshakeError{Status: http.StatusServiceUnavailable, Reason: "The server takes no more streams now."}
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if errors.Is(err, http.ErrNotSupported) {
		return nil, &HandshakeError{Status: http.StatusHTTPVersionNotSupported, Reason: "A stream needs HTTP/1.1."}
	}
	if err != nil {
		return nil, fmt.Errorf("take connection: %w", err)
	}
	early := make([]byte, buffered.Reader.Buffered())
	_, _ = buffered.Read(early) // no more than is buffered: cannot fail or fall short
	if len(early) == 0 {
		early = nil
	}
	if err := writeHead(c, status, head); err != nil {
		return nil, errors.Join(fmt.Errorf("write head: %w", err), c.Close())
	}
	s, err := k.open(c, kind, f, early)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

func writeHead(c net.Conn, status string, head http.Header) error {
	var b bytes.Buffer
	b.WriteString(status + "\r\n")
	_ = head.Write(&b) // to memory
	b.WriteString("\r\n")
	_, err := c.Write(b.Bytes()) // fits the send buffer of a fresh socket: waits for nobody
	return err
}
