package run_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
	"github.com/cairnsync/cairn/internal/testkit/crash"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestMain(m *testing.M) {
	acpagent.Main()
	crash.Serve()
	runAsProcess()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test; a test that works needs a fraction of it.
const patience = 60 * time.Second

// stage is a server with one session, its owner's machines and a phone.
type stage struct {
	t       *testing.T
	url     string
	key     string
	session string
	root    string
	folder  string
	working string // remembers the sessions at work, for serve
	phone   *sessions.Client
	log     *follower
}

// The devices.
const (
	desktop = "11111111-1111-4111-8111-111111111111"
	laptop  = "22222222-2222-4222-8222-222222222222"
	mobile  = "33333333-3333-4333-8333-333333333333"
)

func newStage(t *testing.T, db *testkit.Database) *stage { return stageWith(t, db, nil) }

// stageWith is a stage whose server is configured so.
func stageWith(t *testing.T, db *testkit.Database, change func(*config.Config)) *stage {
	node := servertest.Start(t, db, change)
	return stageAt(t, node.URL, node.Account(t, "ada").Key)
}

func stageAt(t *testing.T, url, key string) *stage {
	s := &stage{t: t, url: url, key: key, root: t.TempDir(), folder: filepath.Join(t.TempDir(), "desktop")}
	s.phone = s.client(url, mobile, wire.PlatformIOS)
	created, err := s.phone.CreateSession(t.Context(), sessions.NewSession{SessionKey: "build", Title: "Build"})
	require.NoError(t, err)
	s.session = created.ID
	s.log = follow(t, s.phone, created.ID, "")
	return s
}

func (s *stage) client(url, device string, platform wire.Platform) *sessions.Client {
	made, err := sessions.New(sessions.Config{BaseURL: url, Key: s.key, Device: sessions.Device{ID: device, Platform: platform, Name: string(platform)}})
	require.NoError(s.t, err)
	s.t.Cleanup(made.Close)
	return made
}

// options run the scripted agent on the desktop.
func (s *stage) options(agent ...string) run.Options {
	return run.Options{
		Client: s.client(s.url, desktop, wire.PlatformDesktop), Session: s.session, Command: acpagent.Command(s.t, agent...), Root: s.root, Folder: s.folder,
		StopGrace: 500 * time.Millisecond, Stderr: s.t.Output(), Env: env.Real(), Log: nil,
	}
}

func (s *stage) start(o run.Options) *run.Runner {
	runner, err := run.Start(s.t.Context(), o)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { s.stop(runner) })
	return runner
}

func (s *stage) stop(runner *run.Runner) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = runner.Stop(ctx)
}

// ended waits for the end of a runner.
func (s *stage) ended(runner *run.Runner) error {
	select {
	case <-runner.Done():
		return runner.Err()
	case <-time.After(patience):
		require.Fail(s.t, "the runner does not end")
		return nil
	}
}

// control sends a control from the phone and answers its id.
func (s *stage) control(kind wire.ControlKind, change func(*wire.IncomingControl)) string {
	control := wire.IncomingControl{ID: sessions.NewID(), Kind: kind}
	if change != nil {
		change(&control)
	}
	_, err := s.phone.SendControl(s.t.Context(), s.session, control)
	require.NoError(s.t, err)
	return control.ID
}

func (s *stage) send(text string) string { return s.say(wire.ControlSend, text) }

func (s *stage) say(kind wire.ControlKind, text string) string {
	return s.control(kind, func(c *wire.IncomingControl) { c.Text = &text })
}

func (s *stage) answer(kind wire.ControlKind, ask string) string {
	return s.control(kind, func(c *wire.IncomingControl) { c.AskID = &ask })
}

// applied waits until a control is marked.
func (s *stage) applied(id string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		pending, err := s.phone.Controls(s.t.Context(), s.session, sessions.ControlsQuery{Applied: sessions.AppliedPending})
		if err != nil {
			return false
		}
		for _, control := range pending {
			if control.ID == id {
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond, "control %s is not applied", id)
}

// file is a path in the root, for scripts that wait for it.
func (s *stage) file(name string) string { return filepath.Join(s.root, name) }

func (s *stage) touch(name string) { require.NoError(s.t, os.WriteFile(s.file(name), nil, 0o600)) }

// entry is an event with what it carries.
type entry struct {
	wire.Event
	payload trace.Payload // nil for an event of the server
}

// follower keeps a session's log as a viewer sees it.
type follower struct {
	t    *testing.T
	mu   sync.Mutex // guards what follows
	all  []entry
	more chan struct{}
}

func follow(t *testing.T, client *sessions.Client, session, identity string) *follower {
	f := &follower{t: t, more: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var viewing sync.WaitGroup
	viewing.Go(func() {
		_ = client.View(session, sessions.ViewOptions{Identity: identity}).Run(ctx, f.take)
	})
	t.Cleanup(func() {
		cancel()
		viewing.Wait()
		if t.Failed() {
			t.Log("the log:\n" + f.String())
		}
	})
	return f
}

func (f *follower) take(frame sessions.Frame) error {
	event, ok := frame.(sessions.EventFrame)
	if !ok {
		return nil
	}
	next := entry{Event: event.Event}
	if event.Kind != wire.KindControl && event.Kind != wire.KindLeaseTransferred {
		next.payload, _ = trace.Read(event.Event)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, next)
	close(f.more)
	f.more = make(chan struct{})
	return nil
}

// String is the log, a line an event.
func (f *follower) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines bytes.Buffer
	for _, event := range f.all {
		turn := "-"
		if event.TurnID != nil {
			turn = *event.TurnID
		}
		fmt.Fprintf(&lines, "%4d %s %s %s\n", event.Seq, turn, event.Kind, event.Payload)
	}
	return lines.String()
}

// until waits until the log shows something, and answers all of it.
func (f *follower) until(what string, shown func(all []entry) bool) []entry {
	f.t.Helper()
	limit := time.After(patience)
	for {
		f.mu.Lock()
		all, more := f.all, f.more
		f.mu.Unlock()
		if shown(all) {
			return all
		}
		select {
		case <-more:
		case <-limit:
			require.Fail(f.t, "the log never shows "+what)
			return nil
		}
	}
}

// await waits for a payload that fits, and answers the first with its event.
func await[P trace.Payload](f *follower, fits func(entry, P) bool) (entry, P) {
	f.t.Helper()
	var (
		found entry
		shown P
	)
	f.until(fmt.Sprintf("a %T that fits", shown), func(all []entry) bool {
		for _, event := range all {
			if payload, ok := event.payload.(P); ok && (fits == nil || fits(event, payload)) {
				found, shown = event, payload
				return true
			}
		}
		return false
	})
	return found, shown
}

// every answers all payloads of a kind that the log has now.
func every[P trace.Payload](f *follower) []P {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []P
	for _, event := range f.all {
		if payload, ok := event.payload.(P); ok {
			found = append(found, payload)
		}
	}
	return found
}

// turnEnd waits for the end of the turn of a control.
func (s *stage) turnEnd(id string) trace.TurnEnd {
	s.t.Helper()
	_, end := await(s.log, func(event entry, _ trace.TurnEnd) bool { return event.TurnID != nil && *event.TurnID == id })
	return end
}

// openAsk waits for the question with this title.
func (s *stage) openAsk(title string) trace.Ask {
	s.t.Helper()
	_, ask := await(s.log, func(_ entry, ask trace.Ask) bool { return ask.Title == title })
	return ask
}

// said waits until the agent has said a text, whatever pieces it came in.
func (s *stage) said(text string) {
	s.t.Helper()
	s.log.until("the text "+text, func(all []entry) bool {
		var whole bytes.Buffer
		for _, event := range all {
			if piece, ok := event.payload.(trace.Assistant); ok && !piece.Thought {
				whole.WriteString(piece.Text)
			}
		}
		return bytes.Contains(whole.Bytes(), []byte(text))
	})
}

// result waits for what became of a control.
func (s *stage) result(id string, outcome trace.ControlOutcome) trace.ControlResult {
	s.t.Helper()
	_, result := await(s.log, func(_ entry, result trace.ControlResult) bool {
		return result.ControlID == id && result.Outcome == outcome
	})
	return result
}

func (s *stage) resolved(ask string) trace.AskResolved {
	s.t.Helper()
	_, resolved := await(s.log, func(_ entry, resolved trace.AskResolved) bool { return resolved.AskID == ask })
	return resolved
}
