package servertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/contract"
	apiworkspace "github.com/cairnsync/cairn/internal/api/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Answer is what a server said. It was held against the OpenAPI document.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the body of an answer with this status.
func (a Answer) Into(t testing.TB, status int, value any) {
	t.Helper()
	require.Equal(t, status, a.Status, "%s", a.Body)
	require.NoError(t, json.Unmarshal(a.Body, value), "%s", a.Body)
}

// Problem requires a refusal with this status and code, and answers it.
func (a Answer) Problem(t testing.TB, status int, code string) wire.Problem {
	t.Helper()
	require.Equal(t, status, a.Status, "%s", a.Body)
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	var problem wire.Problem
	require.NoError(t, json.Unmarshal(a.Body, &problem), "%s", a.Body)
	require.Equal(t, code, problem.Code, "%s", a.Body)
	require.Equal(t, status, problem.Status)
	require.Equal(t, a.Header.Get(wire.HeaderTrace), problem.TraceID)
	return problem
}

// Read is Into as a function.
func Read[T any](t testing.TB, a Answer, status int) T {
	t.Helper()
	var value T
	a.Into(t, status, &value)
	return value
}

// documents are the server's own, read once for all tests.
var documents = sync.OnceValues(func() (*contract.Answers, error) { return contract.NewAnswers(apiworkspace.OpenAPI()) })

var frames = sync.OnceValues(func() (*contract.Frames, error) { return contract.NewFrames(apiworkspace.AsyncAPI()) })

// Frames answers the contract of the gateway's frames.
func Frames(t testing.TB) *contract.Frames {
	t.Helper()
	known, err := frames()
	require.NoError(t, err)
	return known
}

// Send sends a request of the Workspace surface and holds its answer against the OpenAPI document.
func Send(t testing.TB, client *http.Client, request *http.Request) Answer {
	t.Helper()
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if request.Method != http.MethodHead && request.Method != http.MethodOptions && described(response) {
		known, err := documents()
		require.NoError(t, err)
		require.NoError(t, known.Check(request, response, body))
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}
}

// described reports whether the document has a word for an answer: refusals of paths and methods that are no
// route are problems like any other, but nowhere in it; the bytes of files are nobody's schema.
func described(response *http.Response) bool {
	kind := response.Header.Get("Content-Type")
	return response.StatusCode != http.StatusMethodNotAllowed && (kind == "" || strings.HasSuffix(kind, "json")) &&
		!(response.StatusCode == http.StatusNotFound && routeOf(response.Request) == "")
}

// routeOf answers the pattern that a request leads to, "" for none.
func routeOf(r *http.Request) string {
	if path.Clean(r.URL.Path) != r.URL.Path {
		return "" // a mux would redirect
	}
	_, pattern := routes().Handler(&http.Request{Method: r.Method, Host: r.Host, URL: r.URL})
	return pattern
}

// routes is a mux of the routes alone.
var routes = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range apiworkspace.Routes() {
		mux.HandleFunc(route.Pattern(), http.NotFound)
	}
	return mux
})

func reader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
