package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Transport is how a stream travels.
type Transport string

// The transports.
const (
	SSE       Transport = "SSE"
	WebSocket Transport = "WebSocket"
)

// Frame is one frame of a stream; Data is its JSON object.
type Frame struct {
	Name string
	Data []byte
}

// Stream is an open stream. Read Frames until it is closed; then Code and Err say how it ended.
type Stream struct {
	Frames chan Frame
	// Code is the close code of a WebSocket or of an SSE `closed` frame, 0 when there was none.
	Code int
	Err  error // io.EOF for an SSE stream that ended in good order

	cancel context.CancelFunc
	done   sync.WaitGroup
	socket *websocket.Conn
}

// Open opens a stream of a session from a cursor. A refusal is an Answer without a Stream.
func (c *Client) Open(ctx context.Context, transport Transport, session string, after int64) (*Stream, Answer, error) {
	end := "/stream"
	if transport == WebSocket {
		end = "/ws"
	}
	return c.OpenPath(ctx, transport, sessionPath(session, fmt.Sprintf("%s?after=%d", end, after)))
}

// OpenPath opens the stream at a path.
func (c *Client) OpenPath(ctx context.Context, transport Transport, path string) (*Stream, Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{Frames: make(chan Frame), cancel: cancel}
	open := s.openSocket
	if transport == SSE {
		open = s.openSSE
	}
	refusal, err := open(ctx, c, path)
	if err != nil || refusal.Status != 0 {
		cancel()
		return nil, refusal, err
	}
	return s, Answer{}, nil
}

// Close hangs up without a word and waits for the reader.
func (s *Stream) Close() {
	s.cancel()
	for range s.Frames { // the reader ends
	}
	s.done.Wait()
}

// Write sends a message up a WebSocket.
func (s *Stream) Write(ctx context.Context, message any) error {
	encoded, err := encode(message)
	if err != nil {
		return err
	}
	return s.socket.Write(ctx, websocket.MessageText, encoded)
}

func (s *Stream) openSSE(ctx context.Context, c *Client, path string) (Answer, error) {
	request, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return Answer{}, err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("open stream: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return Answer{response.StatusCode, response.Header, body}, err
	}
	s.done.Go(func() {
		defer close(s.Frames)
		defer response.Body.Close()
		s.readSSE(ctx, response.Body)
	})
	return Answer{}, nil
}

func (s *Stream) readSSE(ctx context.Context, body io.Reader) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), 32<<20)
	var building Frame
	for lines.Scan() {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch {
		case len(lines.Bytes()) == 0 && building.Name != "":
			s.hand(ctx, building)
			building = Frame{}
		case string(name) == "event":
			building.Name = string(value)
		case string(name) == "data":
			building.Data = bytes.Clone(value)
		default: // a comment or an id
		}
	}
	if s.Err = lines.Err(); s.Err == nil {
		s.Err = io.EOF
	}
}

func (s *Stream) hand(ctx context.Context, frame Frame) {
	if frame.Name == wire.FrameClosed {
		var closed struct{ Code int }
		if err := json.Unmarshal(frame.Data, &closed); err == nil {
			s.Code = closed.Code
		}
	}
	select {
	case s.Frames <- frame:
	case <-ctx.Done():
	}
}

func (s *Stream) openSocket(ctx context.Context, c *Client, path string) (Answer, error) {
	connection, response, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.URL(), "http")+path,
		&websocket.DialOptions{HTTPClient: c.HTTP, HTTPHeader: c.headers()})
	if err != nil && response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		body, readErr := io.ReadAll(response.Body)
		return Answer{response.StatusCode, response.Header, body}, readErr
	}
	if err != nil {
		return Answer{}, fmt.Errorf("open socket: %w", err)
	}
	connection.SetReadLimit(-1)
	s.socket = connection
	s.done.Go(func() {
		defer close(s.Frames)
		defer func() { _ = connection.CloseNow() }()
		s.readSocket(ctx, connection)
	})
	return Answer{}, nil
}

func (s *Stream) readSocket(ctx context.Context, connection *websocket.Conn) {
	for {
		_, data, err := connection.Read(ctx)
		if err != nil {
			s.Code, s.Err = int(websocket.CloseStatus(err)), err
			s.Code = max(s.Code, 0)
			return
		}
		var head struct{ T string }
		if err := json.Unmarshal(data, &head); err != nil {
			s.Err = fmt.Errorf("read frame %q: %w", data, err)
			return
		}
		s.hand(ctx, Frame{head.T, data})
	}
}
