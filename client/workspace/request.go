package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// prefix is in front of every route.
const prefix = "/api/v1"

// Call is one request to make.
type Call struct {
	Method string
	// Path is below the base URL and escaped, such as "/api/v1/me".
	Path  string
	Query url.Values
	// Body is encoded as JSON; nil for none, json.RawMessage as it is.
	Body any
	// Key is the Idempotency-Key of a write (ES-5.2), the same on every attempt; "" for none.
	Key string
	// IfMatch is the version the object must have; 0 for any.
	IfMatch int64

	public bool // carries no token: discovery and sign-in
	proved bool // carries a proof without a token: sign-in
	once   bool // never tried again by itself
}

// Answer is a successful answer, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Replayed reports whether the server had done this before and answered what it answered then (ES-5).
func (a Answer) Replayed() bool { return a.Header.Get(wire.HeaderIdempotentReplay) == "true" }

// Do makes a request that has no typed method, and repeats it as far as Config.Attempts allows when that
// may help. A write without a Key is given one. An answer that is not 2xx is a *Problem.
func (c *Client) Do(ctx context.Context, made Call) (Answer, error) {
	if made.Method != http.MethodGet && made.Key == "" {
		made.Key = NewID()
	}
	return c.perform(ctx, made)
}

// fetch makes the call and decodes its answer into a T.
func fetch[T any](ctx context.Context, c *Client, made Call) (T, error) {
	var value T
	answer, err := c.perform(ctx, made)
	if err != nil {
		return value, err
	}
	return value, decodeAnswer(answer, made, &value)
}

func decodeAnswer(answer Answer, made Call, into any) error {
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return fmt.Errorf("decode answer of %s %s: %w", made.Method, made.Path, err)
	}
	return nil
}

// perform makes the call, again when that may help.
func (c *Client) perform(ctx context.Context, made Call) (Answer, error) {
	wait := backoff{base: requestBase, limit: requestCap}
	for tried := 1; ; tried++ {
		answer, err := c.signed(ctx, made)
		if err == nil || made.once || tried >= c.config.Attempts || !worthRetry(err) || ctx.Err() != nil {
			return answer, err
		}
		if !httpkit.Sleep(ctx, wait.next(waitOf(err))) {
			return answer, err
		}
	}
}

// signed makes the call with a token and a proof. A nonce that is not good any more is replaced once by
// the one that came with the refusal (WS-ID-2), and a token that has ended by a new one. A proof that was
// used is replaced once too: net/http repeats a request by itself when a kept connection turns out to be closed,
// and the server may have seen the first one.
func (c *Client) signed(ctx context.Context, made Call) (Answer, error) {
	var spent string // a token the server would not have
	for nonceTold, proofTold, tokenTold := false, false, false; ; {
		token := ""
		if !made.public {
			var err error
			if token, err = c.auth.token(ctx, spent); err != nil {
				return Answer{}, err
			}
		}
		answer, err := c.attempt(ctx, made, token)
		switch {
		case IsCode(err, code.UseDPoPNonce) && !nonceTold:
			nonceTold = true
		case IsCode(err, code.InvalidDPoPProof) && !proofTold:
			proofTold = true
		case !made.public && c.config.APIToken == "" && !tokenTold && endsToken(err):
			tokenTold, spent = true, token
		default:
			return answer, err
		}
	}
}

// endsToken reports whether a refusal says that another access token may help.
func endsToken(err error) bool {
	return IsCode(err, code.TokenExpired) || IsCode(err, code.InvalidToken)
}

func (c *Client) attempt(ctx context.Context, made Call, token string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.RequestTimeout)
	defer cancel()
	request, err := c.request(ctx, made)
	if err != nil {
		return Answer{}, err
	}
	if err := c.authorize(request.Header, made, token); err != nil {
		return Answer{}, err
	}
	response, err := c.send(c.rest, request, made)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	return c.read(response, made)
}

// send makes one request and traces it; an answer that is not 2xx is read, closed and made a *Problem.
func (c *Client) send(by *http.Client, request *http.Request, made Call) (*http.Response, error) {
	started := time.Now()
	response, err := by.Do(request)
	if err != nil {
		err = fmt.Errorf("request %s %s: %w", made.Method, made.Path, httpkit.Bare(err))
		c.trace(made, nil, started, err)
		return nil, err
	}
	c.noteNonce(response.Header.Get(wire.HeaderDPoPNonce))
	if response.StatusCode/100 != 2 {
		err = c.refused(response, made)
		c.trace(made, response, started, err)
		return nil, err
	}
	c.trace(made, response, started, nil)
	return response, nil
}

func (c *Client) refused(response *http.Response, made Call) error {
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblemBody))
	if err != nil {
		return fmt.Errorf("read answer of %s %s: %w", made.Method, made.Path, err)
	}
	return fmt.Errorf("%s %s: %w", made.Method, made.Path, refusal(response, body))
}

func (c *Client) request(ctx context.Context, made Call) (*http.Request, error) {
	target := c.base + made.Path
	if len(made.Query) > 0 {
		target += "?" + made.Query.Encode()
	}
	var body io.Reader
	if made.Body != nil {
		encoded, err := httpkit.Encode(made.Body)
		if err != nil {
			return nil, httpkit.NotSent("encode body of %s %s: %w", made.Method, made.Path, err)
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, made.Method, target, body)
	if err != nil {
		return nil, httpkit.NotSent("build request %s %s: %w", made.Method, made.Path, err)
	}
	request.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if made.Key != "" {
		request.Header.Set(wire.HeaderIdempotencyKey, made.Key)
	}
	if made.IfMatch > 0 {
		request.Header.Set("If-Match", `"`+strconv.FormatInt(made.IfMatch, 10)+`"`)
	}
	return request, nil
}

// authorize puts who calls into the headers (WS-ID-2).
func (c *Client) authorize(header http.Header, made Call, token string) error {
	if made.public && !made.proved {
		return nil
	}
	proof, err := c.proof(made.Method, made.Path, token, c.currentNonce())
	if err != nil {
		return httpkit.NotSent("prove %s %s: %w", made.Method, made.Path, err)
	}
	if proof != "" {
		header.Set(wire.HeaderDPoP, proof)
	}
	switch {
	case token == "":
	case c.config.APIToken != "":
		header.Set("Authorization", "Bearer "+token)
	default:
		header.Set("Authorization", "DPoP "+token)
	}
	return nil
}

// read takes the whole body, at most the limit.
func (c *Client) read(response *http.Response, made Call) (Answer, error) {
	limit := c.config.MaxResponseBytes
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return Answer{}, fmt.Errorf("read answer of %s %s: %w", made.Method, made.Path, err)
	}
	if int64(len(body)) > limit {
		return Answer{}, fmt.Errorf("read answer of %s %s: %w", made.Method, made.Path, ErrResponseTooLarge)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

func (c *Client) trace(made Call, response *http.Response, started time.Time, err error) {
	if c.config.Trace == nil {
		return
	}
	seen := RequestTrace{Method: made.Method, Path: made.Path, Took: time.Since(started), Err: err}
	if response != nil {
		seen.Status, seen.TraceID = response.StatusCode, response.Header.Get(wire.HeaderTrace)
	}
	c.config.Trace(seen)
}
