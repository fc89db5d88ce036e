package workspace_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const api = "/api/v1"

// bare sends a request without any credentials.
func bare(t *testing.T, s *servertest.Server, method, path string, body io.Reader, headers ...servertest.Header) servertest.Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, body)
	require.NoError(t, err)
	for _, header := range headers {
		r.Header.Set(header.Name, header.Value)
	}
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return servertest.Send(t, client, r)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, func(c *config.Config) {
			c.HTTP.MaxBodyBytes = 64 << 10
			c.HTTP.AllowedOrigins = []string{"https://chat.example.org"}
		})
		ada := s.Person(t, "ada")
		t.Run("problems", func(t *testing.T) { testProblems(t, s, ada) })
		t.Run("bodies", func(t *testing.T) { testBodies(t, ada) })
		t.Run("methods", func(t *testing.T) { testMethods(t, s) })
		t.Run("origins", func(t *testing.T) { testOrigins(t, s) })
		t.Run("trace", func(t *testing.T) { testTrace(t, s, ada) })
		t.Run("lists", func(t *testing.T) { testLists(t, ada) })
		t.Run("the other surface stays as it is", func(t *testing.T) {
			for path, status := range map[string]int{"/health": 200, "/health/ready": 200, "/v1/sessions": 401, "/": 404, "/.well-known/other": 404} {
				require.Equal(t, status, plain(t, s.URL+path).StatusCode, path)
			}
		})
	})
}

// plain asks without holding the answer against the document.
func plain(t *testing.T, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response
}

func testProblems(t *testing.T, s *servertest.Server, ada *servertest.Person) {
	for _, path := range []string{"/nothing", "/runs/" + servertest.NewID(), "/webhooks", "/spaces/", "//spaces", "/spaces/../me", "/"} {
		bare(t, s, http.MethodGet, api+path, nil).Problem(t, 404, "not_found")
	}
	refused := bare(t, s, http.MethodDelete, api+"/spaces", nil)
	refused.Problem(t, 405, "method_not_allowed")
	require.Equal(t, "GET, HEAD, POST, OPTIONS", refused.Header.Get("Allow"))
	ada.Do(t, http.MethodGet, api+"/spaces/not-a-uuid", nil).Problem(t, 404, "not_found")
	ada.Do(t, http.MethodGet, api+"/spaces/"+servertest.NewID(), nil).Problem(t, 404, "not_found")
	unready := bare(t, s, http.MethodGet, api+"/gateway", nil)
	unready.Problem(t, 426, "upgrade_required")
	for name, value := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
	} {
		require.Equal(t, value, refused.Header.Get(name))
	}
}

func testBodies(t *testing.T, ada *servertest.Person) {
	const spaces = api + "/spaces"
	asJSON := servertest.Header{Name: "Content-Type", Value: "application/json; charset=UTF-8"}
	ada.Do(t, http.MethodPost, spaces, []byte(`{"name":`)).Problem(t, 400, "malformed_json")
	ada.Do(t, http.MethodPost, spaces, []byte{}).Problem(t, 400, "malformed_json")
	problem := ada.Do(t, http.MethodPost, spaces, []byte(`{"name":null,"colour":"red","name":"b"}`)).Problem(t, 422, "validation_failed")
	require.Equal(t, []wire.FieldProblem{{Pointer: "/name", Message: "must not be null; leave it out"}, {Pointer: "/name", Message: "must be given once only"}}, problem.Errors)
	ada.Do(t, http.MethodPost, spaces, []byte(`{"name":"a"}`), servertest.Header{Name: "Content-Type", Value: "text/plain"}).
		Problem(t, 415, "unsupported_media_type")
	ada.Do(t, http.MethodPost, spaces, []byte(`{"name":"a"}`), servertest.Header{Name: "Content-Type", Value: "application/json; charset=latin1"}).
		Problem(t, 415, "unsupported_media_type")
	require.Equal(t, 201, ada.Do(t, http.MethodPost, spaces, []byte(`{"name":"a"}`), asJSON).Status)
	large := []byte(`{"name":"` + strings.Repeat("a", 65<<10) + `"}`)
	ada.Do(t, http.MethodPost, spaces, large).Problem(t, 413, "payload_too_large")
	problem = ada.Do(t, http.MethodPost, spaces, []byte(`{}`), servertest.Header{Name: wire.HeaderIdempotencyKey, Value: "7"}).Problem(t, 422, "validation_failed")
	require.Len(t, problem.Errors, 2, "the header and the body, in one answer")
}

func testMethods(t *testing.T, s *servertest.Server) {
	head := bare(t, s, http.MethodHead, api, nil)
	require.Equal(t, 200, head.Status)
	require.Empty(t, head.Body)
	require.NotEmpty(t, head.Header.Get("Content-Length"))
	options := bare(t, s, http.MethodOptions, api+"/channels", nil)
	require.Equal(t, 204, options.Status)
	require.Equal(t, "GET, HEAD, POST, OPTIONS", options.Header.Get("Allow"))
	discovered := servertest.Read[wire.Discovery](t, bare(t, s, http.MethodGet, api, nil), 200)
	require.Equal(t, []int{wire.ProtocolVersion}, discovered.ProtocolVersions, "ES-6.1")
	require.Equal(t, api+"/gateway", discovered.GatewayPath)
	for _, document := range []string{"/openapi.yaml", "/asyncapi.yaml"} {
		answer := bare(t, s, http.MethodGet, api+document, nil)
		require.Equal(t, 200, answer.Status)
		require.Equal(t, "application/yaml", answer.Header.Get("Content-Type"))
	}
	keys := bare(t, s, http.MethodGet, "/.well-known/jwks.json", nil)
	require.Contains(t, string(keys.Body), `"kty":"OKP"`, "WS-ID-6")
}

func testOrigins(t *testing.T, s *servertest.Server) {
	ours, theirs := servertest.Header{Name: "Origin", Value: "https://chat.example.org"}, servertest.Header{Name: "Origin", Value: "https://evil.example"}
	asks := servertest.Header{Name: "Access-Control-Request-Method", Value: "PATCH"}
	preflight := bare(t, s, http.MethodOptions, api+"/messages/x", nil, ours, asks)
	require.Equal(t, 204, preflight.Status)
	require.Equal(t, "https://chat.example.org", preflight.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, preflight.Header.Get("Access-Control-Allow-Headers"), wire.HeaderIdempotencyKey)
	answer := bare(t, s, http.MethodGet, api, nil, ours)
	require.Contains(t, answer.Header.Get("Access-Control-Expose-Headers"), wire.HeaderDPoPNonce)
	require.Empty(t, bare(t, s, http.MethodGet, api, nil, theirs).Header.Get("Access-Control-Allow-Origin"))
	upgrade := []servertest.Header{
		{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "websocket"}, {Name: "Sec-WebSocket-Version", Value: "13"},
		{Name: "Sec-WebSocket-Key", Value: "dGhlIHNhbXBsZSBub25jZQ=="},
	}
	bare(t, s, http.MethodGet, api+"/gateway", nil, append(upgrade, theirs)...).Problem(t, 403, "forbidden")
}

func testTrace(t *testing.T, s *servertest.Server, ada *servertest.Person) {
	parent := servertest.Header{Name: "Traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	answer := bare(t, s, http.MethodGet, api, nil, parent)
	require.Equal(t, "0af76519-16cd-43dd-8448-eb211c80319c", answer.Header.Get(wire.HeaderTrace))
	before := servertest.Read[wire.Snapshot](t, ada.Do(t, http.MethodGet, api+"/sync/snapshot", nil), 200).HeadSeq
	require.Equal(t, 201, ada.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "traced"}, parent).Status)
	events := eventsAfter(t, ada, before)
	require.NotEmpty(t, events)
	for _, event := range events {
		require.Equal(t, "0af76519-16cd-43dd-8448-eb211c80319c", event.CorrelationID, "ES-2.2 %s", event.Type)
		require.Empty(t, event.TraceContext, "only agents get it")
	}
}

// eventsAfter answers everything a person sees behind a cursor.
func eventsAfter(t *testing.T, p *servertest.Person, after int64) []wire.Envelope {
	t.Helper()
	var all []wire.Envelope
	for {
		page := servertest.Read[wire.Events](t, p.Do(t, http.MethodGet, api+"/events?after="+number(after), nil), 200)
		all = append(all, page.Events...)
		if after = page.NextCursor; after >= page.HeadSeq {
			return all
		}
	}
}

func testLists(t *testing.T, ada *servertest.Person) {
	space := ada.Space(t, "lists")
	want := map[string]bool{}
	for range 5 {
		want[ada.Channel(t, space.ID, "c").ID] = true
	}
	path := api + "/channels?limit=2&space_id=" + strings.ToUpper(space.ID)
	next, pages := "", 0
	for {
		page := servertest.Read[wire.Page[wire.Channel]](t, ada.Do(t, http.MethodGet, path+next, nil), 200)
		pages++
		for _, channel := range page.Items {
			require.True(t, want[channel.ID])
			delete(want, channel.ID)
		}
		if page.NextCursor == "" {
			break
		}
		next = "&cursor=" + page.NextCursor
	}
	require.Empty(t, want)
	require.Equal(t, 3, pages)
	ada.Do(t, http.MethodGet, api+"/spaces?cursor="+strings.TrimPrefix(next, "&cursor="), nil).Problem(t, 422, "validation_failed")
	for _, query := range []string{"limit=0", "limit=-1", "limit=x", "cursor=x", "space_id=7", "limit=1&limit=2", "space_id=%ff", "a=%zz"} {
		ada.Do(t, http.MethodGet, api+"/channels?"+query, nil).Problem(t, 422, "validation_failed")
	}
	require.Equal(t, 200, ada.Do(t, http.MethodGet, api+"/channels?limit=99999999999999999999&unknown=1", nil).Status, "too large is clamped")
}

// A client that promises a large body and sends it a byte at a time costs what it has sent.
func TestSlowBodiesAreCheap(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, testkit.New(t, testkit.SQLite), func(c *config.Config) { c.Limits.Login.Count = 1000 })
	address := strings.TrimPrefix(s.URL, "http://")
	for range 200 {
		connection, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		_, err = io.WriteString(connection, "POST /api/v1/auth/token HTTP/1.1\r\nHost: "+address+"\r\nContent-Type: application/json\r\nContent-Length: 12000000\r\n\r\n{")
		require.NoError(t, err)
	}
	answer := bare(t, s, http.MethodPost, api+"/auth/token", bytes.NewReader([]byte(`{}`)), servertest.Header{Name: "Content-Type", Value: "application/json"})
	answer.Problem(t, 422, "validation_failed")
}
