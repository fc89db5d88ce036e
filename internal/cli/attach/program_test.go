package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// TestMain looks for goroutines that are left, but for bubbletea's reader: it waits forever to hand over what was typed in the
// moment in which the program ended.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/charmbracelet/ultraviolet.(*TerminalReader).sendEvents"))
}

// patience bounds every wait for something that must happen.
const patience = 30 * time.Second

// room is a session on a real server, with an executor.
type room struct {
	t        *testing.T
	server   *servertest.Server
	owner    servertest.Account
	session  wire.Session
	executor *client.Executor
	controls chan wire.Control
}

func newRoom(t *testing.T, db *testkit.Database) *room {
	t.Helper()
	r := &room{t: t, server: servertest.Start(t, db, nil), controls: make(chan wire.Control, 100)}
	r.owner = r.server.Account(t, "ann")
	title := "Fix the build"
	created, err := r.client(r.owner, deskTop, "desk", "").CreateSession(t.Context(), client.NewSession{SessionKey: "build", Title: title})
	require.NoError(t, err)
	r.session = created.Session
	return r
}

func (r *room) client(who servertest.Account, device, name, url string) *client.Client {
	r.t.Helper()
	if url == "" {
		url = r.server.URL
	}
	c, err := client.New(client.Config{BaseURL: url, Key: who.Key, Device: client.Device{ID: device, Platform: wire.PlatformCLI, Name: name}})
	require.NoError(r.t, err)
	r.t.Cleanup(c.Close)
	return c
}

// execute makes the desk the executor; controls go to r.controls and are applied at once.
func (r *room) execute() {
	r.t.Helper()
	executor, err := r.client(r.owner, deskTop, "desk", "").Execute(r.t.Context(), r.session.ID, client.ExecutorOptions{
		OnControl: func(_ context.Context, control wire.Control) error { r.controls <- control; return nil },
	})
	require.NoError(r.t, err)
	r.executor = executor
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
		defer cancel()
		_ = executor.Stop(ctx)
	})
}

func (r *room) emit(turn string, payloads ...trace.Payload) {
	r.t.Helper()
	for _, payload := range payloads {
		require.NoError(r.t, r.executor.Emit(r.t.Context(), trace.Must(turn, payload)))
	}
}

func (r *room) control() wire.Control {
	r.t.Helper()
	select {
	case control := <-r.controls:
		return control
	case <-time.After(patience):
		require.FailNow(r.t, "no control came")
		return wire.Control{}
	}
}

// watcher is a viewer that runs, on a screen that is no terminal.
type watcher struct {
	t    *testing.T
	keys *os.File
	done chan error

	mu     sync.Mutex
	screen string
}

func (r *room) attach(c *client.Client, change func(*Options)) *watcher {
	r.t.Helper()
	in, keys, err := os.Pipe()
	require.NoError(r.t, err)
	w := &watcher{t: r.t, keys: keys, done: make(chan error, 1)}
	o := Options{
		Client: c, Session: r.session.ID, Env: env.Real(), In: in, Out: io.Discard,
		size: func() (int, int) { return 80, 24 },
		seen: func(lines []string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.screen = strings.Join(lines, "\n")
		},
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.done <- Run(ctx, o)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-ended
		_, _ = keys.Close(), in.Close()
	})
	return w
}

func (w *watcher) look() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.screen
}

// shows waits until the screen shows all parts.
func (w *watcher) shows(parts ...string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		screen := w.look()
		for _, part := range parts {
			if !strings.Contains(screen, part) {
				return false
			}
		}
		return true
	}, patience, 2*time.Millisecond, "%v\n%v", parts, lazy(w.look))
}

func (w *watcher) hides(part string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return !strings.Contains(w.look(), part) }, patience, 2*time.Millisecond, "%v\n%v", part, lazy(w.look))
}

// lazy is a text that is made when it is printed.
type lazy func() string

func (l lazy) String() string { return l() }

func (w *watcher) types(text string) {
	w.t.Helper()
	_, err := io.WriteString(w.keys, text)
	require.NoError(w.t, err)
}

// leaves waits for the end.
func (w *watcher) leaves() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(patience):
		require.FailNow(w.t, "it does not end")
		return nil
	}
}

func TestASessionIsSteered(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		r := newRoom(t, db)
		r.execute()
		w := r.attach(r.client(r.owner, laptop, "laptop", ""), nil)
		w.shows("Fix the build", "● live", "desk drives", "enter sends a new turn", "◉ this device")
		w.types("please fix it\r")
		send := r.control()
		require.Equal(t, wire.ControlSend, send.Kind)
		require.Equal(t, "please fix it", *send.Text)
		r.emit(send.ID, trace.TurnStart{Text: *send.Text, ControlID: send.ID}, permission("a"), permission("b"), permission("c"))
		w.shows("from this device", "enter steers", "[y] approve", "#3 Run c")
		w.types("y")
		r.answers(r.control(), wire.ControlApprove, permission("a"))
		w.shows("! Run a: Allow once, by this device", "#1 Run b", "[n] deny")
		w.types("\tn")
		r.answers(r.control(), wire.ControlDeny, permission("c"))
		w.shows("! Run c: Reject", "[2] Always")
		w.types("2")
		r.answers(r.control(), wire.ControlAnswer, permission("b"))
		w.shows("! Run b: Always allow")
		w.types("faster\r")
		steer := r.control()
		require.Equal(t, wire.ControlSteer, steer.Kind)
		r.emit(send.ID, trace.ControlResult{ControlID: steer.ID, Outcome: trace.ControlRejected, Reason: "no brakes"})
		w.shows("rejected (no brakes)")
		r.emit(send.ID, trace.TurnEnd{Status: trace.TurnCompleted})
		w.shows("turn completed", "enter sends a new turn")
		w.types("/dispatch desk and the docs\r")
		dispatched := r.control()
		require.Equal(t, "and the docs", *dispatched.Text)
		require.Equal(t, deskTop, *dispatched.TargetDeviceID)
		w.shows("dispatched to desk, which has the session open")
		w.types("/quit\r")
		require.NoError(t, w.leaves())
	})
}

func (r *room) answers(control wire.Control, kind wire.ControlKind, ask trace.Ask) {
	r.t.Helper()
	require.Equal(r.t, kind, control.Kind)
	require.Equal(r.t, ask.AskID, *control.AskID)
	resolved, err := trace.Resolve(ask, control)
	require.NoError(r.t, err)
	r.emit("", resolved)
}

func TestAttentionIsSeenByOthers(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	one := r.attach(r.client(r.owner, laptop, "laptop", ""), nil)
	other := r.attach(r.client(r.owner, phone, "phone", ""), nil)
	other.shows("◉ laptop")
	one.types("\x1b[O") // the terminal lost the focus
	other.shows("○ laptop")
	one.types("\x1b[I")
	other.shows("◉ laptop")
	one.types("\x03\x03")
	require.NoError(t, one.leaves())
	other.hides("laptop")
}

func TestACutConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		r := newRoom(t, db)
		r.execute()
		way := newWay(t, strings.TrimPrefix(r.server.URL, "http://"))
		w := r.attach(r.client(r.owner, laptop, "laptop", "http://"+way.at()), nil)
		r.emit("t", trace.TurnStart{Text: "go"}, trace.Assistant{Text: "before the cut", Final: true})
		w.shows("● live", "before the cut")
		way.cut(true)
		w.shows("○ offline")
		w.types("are you there?\r")
		w.shows("“are you there?”")
		r.emit("t", trace.Assistant{Text: "while it was cut", Final: true})
		way.cut(false)
		w.shows("● live", "before the cut", "while it was cut")
		require.Equal(t, 1, strings.Count(w.look(), "before the cut"))
		steer := r.control()
		require.Equal(t, "are you there?", *steer.Text)
		w.hides("trying again")
		select {
		case again := <-r.controls:
			require.Fail(t, "SS-CON-2 the wish was executed twice", "%v", again)
		default:
		}
	})
}

func TestAccessIsLost(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		r := newRoom(t, db)
		r.execute()
		bob := r.server.Account(t, "bob")
		owner := r.client(r.owner, deskTop, "desk", "")
		share, err := owner.AddShare(t.Context(), r.session.ID, client.NewShare{PrincipalType: wire.PrincipalUser, PrincipalID: bob.UserID, Role: wire.RoleViewer})
		require.NoError(t, err)
		w := r.attach(r.client(bob, phone, "phone", ""), nil)
		r.emit("t", trace.TurnStart{Text: "go"}, trace.Assistant{Text: "what bob may see", Final: true}, permission("a"))
		w.shows("read-only: you are a viewer", "what bob may see")
		w.types("y")
		_, err = owner.RemoveShare(t.Context(), r.session.ID, share.ID)
		require.NoError(t, err)
		w.shows("you may not see this session any more", "what bob may see", "ended")
		w.types("\x03\x03")
		var closed *client.ClosedError
		require.ErrorAs(t, w.leaves(), &closed)
		require.Empty(t, r.controls)
	})
}

func TestASessionThatIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	r.session.ID = "nowhere"
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), nil)
	require.ErrorContains(t, w.leaves(), "not_found")
}

func TestSealedSessions(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	identity, err := client.NewIdentity()
	require.NoError(t, err)
	c := r.client(r.owner, deskTop, "desk", "")
	_, err = c.ClaimLease(t.Context(), r.session.ID, client.Claim{})
	require.NoError(t, err)
	seal := func(payload trace.Payload) wire.IncomingEvent {
		event := trace.Must("t", payload)
		event.Payload, err = client.Seal(event.Payload, []string{identity.Recipient})
		require.NoError(t, err)
		return event
	}
	tell := func(text string) {
		_, err := c.AppendEvents(t.Context(), r.session.ID, client.Append{Events: []wire.IncomingEvent{seal(trace.Assistant{Text: text, Final: true})}})
		require.NoError(t, err)
	}
	tell("an old secret")
	reader := r.attach(r.client(r.owner, laptop, "laptop", ""), func(o *Options) { o.Identity = identity.Secret })
	blind := r.attach(r.client(r.owner, phone, "phone", ""), nil)
	reader.shows("an old secret", "● live")
	blind.shows("1 sealed event: assistant", "● live")
	tell("a new secret")
	reader.shows("a new secret")
	blind.shows("2 sealed events")
	require.NotContains(t, blind.look(), "secret")
}

// agent is a driver of tests.
type agent struct {
	done   chan struct{}
	notice chan string
	once   sync.Once
	err    error
}

func (a *agent) Done() <-chan struct{} { return a.done }
func (a *agent) Err() error            { return a.err }
func (a *agent) Notice() <-chan string { return a.notice }
func (a *agent) Stop(context.Context) error {
	a.once.Do(func() { close(a.done) })
	return nil
}

func TestTheAgentOfThisProcess(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	var agents []*agent
	forced := make(chan bool, 4)
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), func(o *Options) {
		o.TakeAtStart = true
		o.Take = func(_ context.Context, force bool) (Driver, error) {
			forced <- force
			if len(agents) == 1 {
				agents = append(agents, nil)
				return nil, errors.New("the agent is not installed")
			}
			a := &agent{done: make(chan struct{}), notice: make(chan string, 1)}
			agents = append(agents, a)
			return a, nil
		}
	})
	w.shows("this device drives now")
	require.False(t, <-forced)
	agents[0].notice <- "loaded the conversation"
	w.shows("agent: loaded the conversation")
	agents[0].err = errors.New("it crashed")
	require.NoError(t, agents[0].Stop(t.Context()))
	w.shows("the agent ended: it crashed")
	r.execute()
	w.shows("desk drives")
	w.types("/take\r")
	w.shows("could not take over: the agent is not installed")
	require.True(t, <-forced)
	w.types("/take\r")
	w.shows("this device drives now")
	w.types("\x03")
	w.shows("stops the agent of this device")
	agents[2].err = errors.New("two events were not stored")
	w.types("\x03")
	require.ErrorIs(t, w.leaves(), agents[2].err, "what its end has to say outlives the screen")
	select {
	case <-agents[2].Done():
	default:
		require.Fail(t, "leaving stops the agent")
	}
}

func TestALongLogOnAServer(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	c := r.client(r.owner, deskTop, "desk", "")
	_, err := c.ClaimLease(t.Context(), r.session.ID, client.Claim{})
	require.NoError(t, err)
	for batch := range 10 {
		var events []wire.IncomingEvent
		for i := range 200 {
			events = append(events, trace.Must("", trace.User{Text: fmt.Sprintf("event %d", batch*200+i+1)}))
		}
		_, err := c.AppendEvents(t.Context(), r.session.ID, client.Append{Events: events})
		require.NoError(t, err)
	}
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), nil)
	w.shows("event 2000", "● live")
	require.Eventually(t, func() bool {
		w.types("\x1b[5~") // page up
		return strings.Contains(w.look(), "event 1\n") || strings.Contains(w.look(), "event 1 ")
	}, patience, 10*time.Millisecond)
	w.types("\x1b[F")
	w.shows("event 2000")
	w.types("\x1b[200~several\nlines\x1b[201~")
	w.shows("› several", "  lines")
}

// way carries connections to a server, and can be cut.
type way struct {
	t        *testing.T
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool
	shut bool
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &way{t: t, listener: listener, to: to, open: map[net.Conn]bool{}}
	w.running.Go(w.accept)
	t.Cleanup(func() {
		w.cut(true)
		_ = listener.Close()
		w.running.Wait()
	})
	return w
}

func (w *way) at() string { return w.listener.Addr().String() }

func (w *way) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		to, err := (&net.Dialer{}).Dial("tcp", w.to)
		if err != nil || !w.hold(from, to) {
			_ = from.Close()
			continue
		}
		w.running.Go(func() { carry(from, to) })
		w.running.Go(func() { carry(to, from) })
	}
}

func carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = from.Close(), to.Close()
}

// hold remembers both ends, unless the way is cut.
func (w *way) hold(from, to net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		_ = to.Close()
		return false
	}
	w.open[from], w.open[to] = true, true
	return true
}

// cut ends every connection, and lets no new one through while shut.
func (w *way) cut(shut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
	for conn := range w.open {
		_ = conn.Close()
		delete(w.open, conn)
	}
}
