package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Client speaks the protocol as one key on one device, with nothing in between that could hide what
// happens: no retries, no resuming.
type Client struct {
	URL    func() string // the base URL; it may change
	Key    string        // "" sends none
	Device string        // "" sends none
	Header http.Header   // more headers
	HTTP   *http.Client
}

// NewHTTP makes a client for any number of Clients; CloseIdleConnections ends its connections.
func NewHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

// narrow makes a client whose connections hold little that was not read yet.
func narrow() *http.Client {
	var dialer net.Dialer
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, network, address)
		if tcp, ok := connection.(*net.TCPConn); ok {
			err = errors.Join(err, tcp.SetReadBuffer(64<<10))
		}
		return connection, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true}}
}

// Answer is what the server said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error answers the error of a refusal; its zero value when the body is none.
func (a Answer) Error() wire.ErrorBody {
	var read wire.Error
	if json.Unmarshal(a.Body, &read) != nil {
		return wire.ErrorBody{}
	}
	return read.Error
}

// Into decodes the body.
func (a Answer) Into(v any) error {
	if err := json.Unmarshal(a.Body, v); err != nil {
		return fmt.Errorf("read answer %s: %w", a, err)
	}
	return nil
}

// String shows status and body.
func (a Answer) String() string { return fmt.Sprintf("%d %s", a.Status, bytes.TrimSpace(a.Body)) }

// NotSent reports whether err says that a request never reached the server.
func NotSent(err error) bool {
	failure := new(net.OpError)
	return errors.As(err, &failure) && failure.Op == "dial"
}

// Do sends body (nil: none; []byte or string: as it is; otherwise its JSON) and reads the answer.
func (c *Client) Do(ctx context.Context, method, path string, body any) (Answer, error) {
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return Answer{}, err
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("read answer to %s %s: %w", method, path, err)
	}
	return Answer{response.StatusCode, response.Header, content}, nil
}

// Cut says when Lose hangs up.
type Cut int

// The moments.
const (
	CutAtOnce Cut = iota // when the request is sent
	CutLate              // when the answer begins to arrive: whatever was asked is over
)

// Lose sends a request on a connection of its own and hangs up before it can know the answer. It
// reports whether an answer began.
func (c *Client) Lose(ctx context.Context, method, path string, body any, cut Cut) (bool, error) {
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return false, err
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", request.URL.Host)
	if err != nil {
		return false, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return false, err
	}
	if err := request.Write(connection); err != nil {
		return false, fmt.Errorf("send request: %w", err)
	}
	if cut == CutAtOnce {
		return false, nil
	}
	n, _ := connection.Read(make([]byte, 1)) // the server may have died meanwhile
	return n > 0, nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	encoded, err := encode(body)
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if encoded != nil {
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL()+path, reader)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header = c.headers()
	return request, nil
}

func encode(body any) ([]byte, error) {
	switch body := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return body, nil
	case string:
		return []byte(body), nil
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode body: %w", err)
		}
		return encoded, nil
	}
}

func (c *Client) headers() http.Header {
	header := http.Header{}
	if c.Key != "" {
		header.Set("Authorization", "Bearer "+c.Key)
	}
	if c.Device != "" {
		header.Set(wire.HeaderDevice, c.Device)
		header.Set(wire.HeaderPlatform, string(wire.PlatformCLI))
	}
	maps.Copy(header, c.Header)
	return header
}

// sessionPath is the path of something of a session.
func sessionPath(id, rest string) string { return "/v1/sessions/" + url.PathEscape(id) + rest }
