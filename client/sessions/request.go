package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Answer is a successful answer, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// call is one request to make.
type call struct {
	method string
	path   string // escaped, below the base URL
	query  url.Values
	body   any  // encoded as JSON; nil for none
	repeat bool // safe to try again when the outcome is unknown
}

// Do makes one request to a path below the base URL, such as "/v1/sessions", with any JSON body (nil for
// none), and answers what came back. It is for routes and bodies that have no typed method. An answer
// that is not 2xx is an *APIError. Nothing is tried twice.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, body any) (Answer, error) {
	return c.attempt(ctx, call{method: method, path: path, query: query, body: body})
}

// fetch makes the call and decodes its answer into a T.
func fetch[T any](ctx context.Context, c *Client, made call) (T, int, error) {
	var value T
	answer, err := c.perform(ctx, made)
	if err != nil {
		return value, 0, err
	}
	if err := json.Unmarshal(answer.Body, &value); err != nil {
		return value, answer.Status, fmt.Errorf("decode answer of %s %s: %w", made.method, made.path, err)
	}
	return value, answer.Status, nil
}

// perform makes the call, again when it is safe and may help.
func (c *Client) perform(ctx context.Context, made call) (Answer, error) {
	var wait backoff
	for tried := 1; ; tried++ {
		answer, err := c.attempt(ctx, made)
		if err == nil || !made.repeat || tried >= c.config.Attempts || !worthRetry(err) || ctx.Err() != nil {
			return answer, err
		}
		if !httpkit.Sleep(ctx, wait.next(retryAfter(err))) {
			return answer, err
		}
	}
}

func (c *Client) attempt(ctx context.Context, made call) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	request, err := c.request(ctx, made)
	if err != nil {
		return Answer{}, err
	}
	started := time.Now()
	response, err := c.rest.Do(request)
	if err != nil {
		err = fmt.Errorf("request %s %s: %w", made.method, made.path, httpkit.Bare(err))
		c.trace(made.method, made.path, nil, started, err)
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := c.read(response)
	c.trace(made.method, made.path, response, started, err)
	if err != nil {
		return Answer{}, fmt.Errorf("%s %s: %w", made.method, made.path, err)
	}
	return answer, nil
}

func (c *Client) request(ctx context.Context, made call) (*http.Request, error) {
	target := c.base + made.path
	if len(made.query) > 0 {
		target += "?" + made.query.Encode()
	}
	var body io.Reader
	if made.body != nil {
		encoded, err := httpkit.Encode(made.body)
		if err != nil {
			return nil, httpkit.NotSent("encode body of %s %s: %w", made.method, made.path, err)
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, made.method, target, body)
	if err != nil {
		return nil, httpkit.NotSent("build request %s %s: %w", made.method, made.path, err)
	}
	c.identify(request.Header)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// read takes the whole body, at most the limit, and turns a refusal into an *APIError.
func (c *Client) read(response *http.Response) (Answer, error) {
	limit := c.config.MaxResponseBytes
	if response.StatusCode/100 != 2 {
		limit = min(limit, maxErrorBody)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return Answer{}, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return Answer{}, refusal(response, body)
	}
	if int64(len(body)) > limit {
		return Answer{}, fmt.Errorf("read answer: %w", ErrResponseTooLarge)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

func (c *Client) trace(method, path string, response *http.Response, started time.Time, err error) {
	if c.config.Trace == nil {
		return
	}
	seen := RequestTrace{Method: method, Path: path, Took: time.Since(started), Err: err}
	if response != nil {
		seen.Status = response.StatusCode
		seen.TraceID = response.Header.Get(wire.HeaderTrace)
	}
	c.config.Trace(seen)
}
