package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key       = "codai_test_key"
	mine      = "11111111-1111-4111-8111-111111111111"
	other     = "22222222-2222-4222-8222-222222222222"
	sessionID = "33333333-3333-4333-8333-333333333333"
)

// fake is a server of one session that speaks the protocol's wire format. Its clock is time.Now, which is
// the test's own inside a synctest bubble.
type fake struct {
	// before may answer a request itself (true), or break the connection by panicking.
	before func(w http.ResponseWriter, r *http.Request) bool
	// after may spoil what happened to a request that was carried out.
	after func(r *http.Request)

	mu       sync.Mutex // guards what follows
	events   []wire.Event
	known    map[string]int64
	controls []wire.Control
	holder   string
	expires  time.Time
	batches  [][]wire.IncomingEvent
	requests []string // "METHOD route?query"
	streams  map[chan string]bool
}

func newFake() *fake { return &fake{known: map[string]int64{}, streams: map[chan string]bool{}} }

// over answers a client of f over real sockets.
func (f *fake) over(t *testing.T) *sessions.Client {
	t.Helper()
	server := httptest.NewServer(f)
	client := newClient(t, sessions.Config{BaseURL: server.URL})
	t.Cleanup(func() { client.Close(); server.CloseClientConnections(); server.Close() })
	return client
}

// inMemory answers a client of f without sockets, for synctest.
func (f *fake) inMemory(t *testing.T) *sessions.Client {
	t.Helper()
	return newClient(t, sessions.Config{BaseURL: "http://fake.test", HTTP: &http.Client{Transport: memory{f}}})
}

func newClient(t *testing.T, c sessions.Config) *sessions.Client {
	t.Helper()
	c.Key = key
	if c.Device.ID == "" {
		c.Device = sessions.Device{ID: mine, Platform: wire.PlatformCLI, Name: "test"}
	}
	client, err := sessions.New(c)
	require.NoError(t, err)
	return client
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
	before := f.before
	f.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if strings.HasSuffix(r.URL.Path, "/stream") {
		f.stream(w, r)
		return
	}
	recorded := httptest.NewRecorder()
	f.route(recorded, r)
	if f.after != nil {
		f.after(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(recorded.Body.Bytes())
}

func (f *fake) route(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	route := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1/sessions/"+sessionID)
	if id, found := strings.CutPrefix(route, "POST /control/"); found {
		f.markApplied(w, r, strings.TrimSuffix(id, "/applied"))
		return
	}
	switch route {
	case "GET ":
		reply(w, 200, wire.SessionDetail{Session: wire.Session{ID: sessionID, LastSeq: int64(len(f.events))}})
	case "POST /lease", "PUT /lease", "DELETE /lease":
		f.lease(w, r)
	case "POST /events":
		f.append(w, r)
	case "GET /events":
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		reply(w, 200, sessions.EventsPage{LastSeq: int64(len(f.events)), Events: f.events[min(after, len(f.events)):]})
	case "GET /controls":
		f.listControls(w, r)
	case "POST /control":
		var control wire.IncomingControl
		if json.NewDecoder(r.Body).Decode(&control) != nil {
			refuse(w, 400, "bad_request", "not JSON")
			return
		}
		added := f.addControl(wire.Control{ID: control.ID, Kind: control.Kind, Text: control.Text})
		reply(w, 202, wire.ControlReceipt{Accepted: true, Seq: added.Seq})
	default:
		refuse(w, 404, "not_found", "no route "+route)
	}
}

func (f *fake) lease(w http.ResponseWriter, r *http.Request) {
	device := r.Header.Get(wire.HeaderDevice)
	var claim sessions.Claim
	_ = json.NewDecoder(r.Body).Decode(&claim) // the body may be empty
	live := time.Now().Before(f.expires)
	switch {
	case r.Method == http.MethodDelete:
		held := live && f.holder == device
		if held {
			f.holder, f.expires = "", time.Time{}
			f.publish(wire.FrameLease, `{"v":1,"holder_device_id":null,"expires_at":null}`)
		}
		reply(w, 200, map[string]any{"session_id": sessionID, "released": held})
		return
	case live && f.holder != device && !claim.Force:
		f.refuseLease(w, "Lease lost to another device.")
		return
	case r.Method == http.MethodPut && !live:
		refuse(w, 409, "lease_held", "Lease expired.")
		return
	}
	f.hold(device)
	reply(w, 200, wire.Lease{SessionID: sessionID, DeviceID: device, ExpiresAt: wire.Time{Time: f.expires}})
}

func (f *fake) hold(device string) {
	f.holder, f.expires = device, time.Now().Add(sessions.LeaseTerm)
	f.publish(wire.FrameLease, fmt.Sprintf(`{"v":1,"holder_device_id":%q,"expires_at":null}`, device))
}

func (f *fake) refuseLease(w http.ResponseWriter, text string) {
	refuse(w, 409, "lease_held", fmt.Sprintf("%s (holder_device_id=%s)", text, f.holder))
}

// requireLease answers false after it refused.
func (f *fake) requireLease(w http.ResponseWriter, r *http.Request) bool {
	if f.holder == r.Header.Get(wire.HeaderDevice) && time.Now().Before(f.expires) {
		return true
	}
	f.refuseLease(w, "Another device holds a live executor lease.")
	return false
}

func (f *fake) append(w http.ResponseWriter, r *http.Request) {
	if !f.requireLease(w, r) {
		return
	}
	var batch sessions.Append
	if json.NewDecoder(r.Body).Decode(&batch) != nil {
		refuse(w, 400, "bad_request", "not JSON")
		return
	}
	f.batches = append(f.batches, batch.Events)
	receipt := wire.Receipt{}
	for _, event := range batch.Events {
		seq, known := f.known[*event.ClientEventID]
		if !known {
			seq = f.store(wire.Event{
				Kind: event.Kind, TurnID: event.TurnID, ClientEventID: event.ClientEventID, Payload: event.Payload,
				SenderDeviceID: r.Header.Get(wire.HeaderDevice),
			})
			f.known[*event.ClientEventID] = seq
			receipt.Accepted++
		}
		receipt.Events = append(receipt.Events, wire.ReceiptEntry{ClientEventID: event.ClientEventID, Seq: seq})
	}
	receipt.LastSeq = int64(len(f.events))
	reply(w, 200, receipt)
}

func (f *fake) store(event wire.Event) int64 {
	event.Seq = int64(len(f.events) + 1)
	f.events = append(f.events, event)
	f.publish(wire.FrameEvent, encoded(event))
	return event.Seq
}

// control adds a pending control, as an editor would.
func (f *fake) control(control wire.Control) wire.Control {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addControl(control)
}

func (f *fake) addControl(control wire.Control) wire.Control {
	control.Seq = int64(len(f.events) + 1)
	payload := json.RawMessage(fmt.Sprintf(`{"control":%s,"applied":false}`, encoded(control)))
	f.store(wire.Event{Kind: wire.KindControl, Payload: payload})
	f.controls = append(f.controls, control)
	return control
}

func (f *fake) listControls(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, _ := strconv.ParseInt(query.Get("after"), 10, 64)
	found := []wire.Control{}
	for _, control := range f.controls {
		targeted := control.TargetDeviceID != nil && *control.TargetDeviceID == r.Header.Get(wire.HeaderDevice)
		if !control.Applied && control.Seq > after && (query.Get("target") != "me" || targeted) &&
			len(found) < sessions.MaxControlsPage {
			found = append(found, control)
		}
	}
	reply(w, 200, map[string]any{"controls": found})
}

func (f *fake) markApplied(w http.ResponseWriter, r *http.Request, id string) {
	for i, control := range f.controls {
		if control.ID != id {
			continue
		}
		if control.Mode != wire.ModeOpen && !f.requireLease(w, r) {
			return
		}
		f.controls[i].Applied = true
		f.publish(wire.FrameControl, fmt.Sprintf(`{"v":1,"id":%q,"kind":"send","seq":%d,"applied":true}`, id, control.Seq))
		reply(w, 200, map[string]any{"id": id, "applied": true})
		return
	}
	refuse(w, 404, "not_found", "no control")
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	live := make(chan string, 10_000)
	f.mu.Lock()
	for _, event := range f.events[min(int(after), len(f.events)):] {
		live <- sse(wire.FrameEvent, encoded(event))
	}
	f.streams[live] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.streams, live)
		f.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	ping := time.NewTicker(15 * time.Second)
	defer ping.Stop()
	for {
		w.(http.Flusher).Flush()
		select {
		case text := <-live:
			_, _ = io.WriteString(w, text)
		case <-ping.C:
			_, _ = io.WriteString(w, ": ping 1\n\n")
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fake) publish(name, data string) {
	for live := range f.streams {
		live <- sse(name, data)
	}
}

func (f *fake) kinds() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds := make([]string, 0, len(f.events))
	for _, event := range f.events {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

func (f *fake) pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	pending := 0
	for _, control := range f.controls {
		if !control.Applied {
			pending++
		}
	}
	return pending
}

func (f *fake) leaseHolder() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holder
}

// take moves the lease to another device, by force.
func (f *fake) take(device string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold(device)
}

func (f *fake) requested(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for _, request := range f.requests {
		if strings.HasPrefix(request, prefix) {
			found = append(found, request)
		}
	}
	return found
}

func sse(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, encoded(body))
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, wire.Error{Error: wire.ErrorBody{Code: code, Message: message, Type: "invalid_request_error"}})
}

// memory carries requests to a handler in the same bubble.
type memory struct{ handler http.Handler }

func (m memory) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(request.Context())
	reader, writer := io.Pipe()
	answer := &memoryWriter{header: http.Header{}, pipe: writer, ready: make(chan struct{})}
	incoming := request.Clone(ctx)
	if incoming.Body == nil {
		incoming.Body = http.NoBody
	}
	release := context.AfterFunc(ctx, func() { writer.CloseWithError(context.Canceled) })
	go func() {
		defer release()
		defer func() {
			broken := recover() // http.ErrAbortHandler breaks the connection
			answer.failed = broken != nil
			answer.WriteHeader(http.StatusOK)
			if broken != nil {
				writer.CloseWithError(io.ErrUnexpectedEOF)
			}
			writer.Close()
		}()
		m.handler.ServeHTTP(answer, incoming)
	}()
	select {
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	case <-answer.ready:
	}
	if answer.broken {
		cancel()
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: answer.status, Header: answer.header, Request: request, ProtoMajor: 1,
		Body: memoryBody{reader, cancel},
	}, nil
}

type memoryBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b memoryBody) Close() error { b.cancel(); return b.ReadCloser.Close() }

type memoryWriter struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	ready  chan struct{}
	status int
	failed bool // the handler's goroutine: it broke
	broken bool // for the caller: it broke before it answered
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) Flush()              {}

func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.broken = status, w.failed
		close(w.ready)
	})
}

func (w *memoryWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(data)
}

var errTaken = errors.New("enough")

// member answers one member of a JSON object as it stands, or "".
func member(data []byte, name string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return ""
	}
	return string(members[name])
}
