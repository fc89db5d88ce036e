package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// object is a JSON object in a request.
type object = map[string]any

// header is one header of a request.
type header struct{ name, value string }

func ifMatch(version int64) header { return header{"If-Match", fmt.Sprintf("%q", fmt.Sprint(version))} }
func once(key string) header       { return header{wire.HeaderIdempotencyKey, key} }

func (p *person) get(path string, headers ...header) *answer {
	return p.do(http.MethodGet, path, nil, headers...)
}

func (p *person) post(path string, body any, headers ...header) *answer {
	return p.do(http.MethodPost, path, body, headers...)
}

func (p *person) put(path string, body any, headers ...header) *answer {
	return p.do(http.MethodPut, path, body, headers...)
}

func (p *person) patch(path string, body any, headers ...header) *answer {
	return p.do(http.MethodPatch, path, body, headers...)
}

func (p *person) delete(path string, headers ...header) *answer {
	return p.do(http.MethodDelete, path, nil, headers...)
}

// do sends a request under /api/v1, signed; body is nil, a string as it is, or made JSON.
func (p *person) do(method, path string, body any, headers ...header) *answer {
	return p.exchange(method, api+path, body, p.prove(p.held().AccessToken), headers...)
}

// exchange sends a request to the node whose turn it is; dress signs it. As clients do, it follows use_dpop_nonce and
// tries again what the server was too busy for (ES-13.2).
func (p *person) exchange(method, path string, body any, dress func(string, *http.Request), headers ...header) *answer {
	return p.exchangeAt(p.node(), method, path, body, dress, headers...)
}

func (p *person) exchangeAt(
	node, method, path string, body any, dress func(string, *http.Request), headers ...header,
) *answer {
	var text []byte
	var a *answer
	switch body := body.(type) {
	case nil:
	case string:
		text = []byte(body)
	default:
		var err error
		if text, err = json.Marshal(body); err != nil {
			return &answer{t: p.t, failure: err}
		}
	}
	for range 4 {
		a = p.send(node, method, path, text, dress, headers)
		p.t.Remember(a.String())
		if a.status != http.StatusServiceUnavailable &&
			(a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), string(code.UseDPoPNonce))) {
			break
		}
	}
	return a
}

// send sends a request once and holds the answer against the document.
func (p *person) send(node, method, path string, text []byte, dress func(string, *http.Request), headers []header) *answer {
	a := &answer{t: p.t, request: method + " " + path + " " + rulebook.Shorten(string(text))}
	var reader io.Reader
	if text != nil {
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, node+path, reader)
	if err != nil {
		a.failure = err
		return a
	}
	if text != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		request.Header.Set(h.name, h.value)
	}
	if dress != nil {
		dress(node, request)
	}
	response, err := p.t.suite.client.Do(request)
	if err != nil {
		a.failure = err
		return a
	}
	defer response.Body.Close() //nolint:errcheck // the body has been read
	a.status, a.header = response.StatusCode, response.Header
	if a.body, a.failure = io.ReadAll(response.Body); a.failure != nil {
		return a
	}
	p.learn(node, a.header.Get(wire.HeaderDPoPNonce))
	a.describe(request, response)
	return a
}

// answer is what the target said to one request.
type answer struct {
	t       *trial
	request string
	status  int // 0 when there was no answer
	header  http.Header
	body    []byte
	failure error
}

// describe holds the answer against the document: its shape, and that there is no null on this surface.
func (a *answer) describe(request *http.Request, response *http.Response) {
	if kind := a.header.Get("Content-Type"); kind != "" && !strings.HasSuffix(kind, "json") {
		return // the bytes of files are nobody's schema
	}
	a.failure = a.t.in.answers.Check(request, response, a.body)
	if a.failure == nil && hasNull(a.body) {
		a.failure = fmt.Errorf("a null on the wire: %s", a.body) //nolint:err113 // words for the report
	}
}

// hasNull reports whether JSON has a null anywhere.
func hasNull(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if token == nil {
			return true
		}
	}
}

// String shows the exchange, cut to a readable length.
func (a *answer) String() string {
	if a.failure != nil {
		return fmt.Sprintf("%s → %d, %v", a.request, a.status, a.failure)
	}
	return fmt.Sprintf("%s → %d %s", a.request, a.status, rulebook.Shorten(strings.TrimSpace(string(a.body))))
}

// want ends the case unless the answer is a success of this status.
func (a *answer) want(status int) *answer {
	require.NoError(a.t, a.failure, a.request)
	require.Equal(a.t, status, a.status, "%s", a)
	return a
}

// into decodes the answer.
func (a *answer) into(v any) *answer {
	require.NoError(a.t, decode(a.body, v), "%s", a)
	return a
}

func (a *answer) replayed() bool { return a.header.Get(wire.HeaderIdempotentReplay) == "true" }

// refused ends the case unless the answer is a problem of this code, and answers it.
func (a *answer) refused(want code.Code) wire.Problem {
	require.NoError(a.t, a.failure, a.request)
	require.Equal(a.t, code.Of(want).Status, a.status, "%s", a)
	require.Equal(a.t, "application/problem+json", a.header.Get("Content-Type"), "%s", a)
	var problem wire.Problem
	a.into(&problem)
	require.Equal(a.t, string(want), problem.Code, "%s", a)
	require.Equal(a.t, a.status, problem.Status, "%s", a)
	require.NotEmpty(a.t, problem.Title, "%s", a)
	return problem
}

func decode(data []byte, v any) error { return json.Unmarshal(data, v) }

// read decodes a success.
func read[T any](a *answer, status int) T {
	var value T
	a.want(status).into(&value)
	return value
}
