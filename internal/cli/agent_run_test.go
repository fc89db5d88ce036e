package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// machine is a person's machine with the command line, and their phone.
type machine struct {
	*shell
	phone *client.Client
	home  string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	node := servertest.Start(t, testkit.New(t, testkit.SQLite), nil)
	ada := node.Account(t, "ada")
	home := t.TempDir()
	s := newShell(t, "CAIRN_URL="+node.URL, "CAIRN_API_KEY="+ada.Key, "XDG_STATE_HOME="+filepath.Join(home, "state"), "PATH="+os.Getenv("PATH"))
	phone, err := client.New(client.Config{BaseURL: node.URL, Key: ada.Key, Device: client.Device{ID: env.Real().NewID(), Platform: wire.PlatformIOS, Name: "phone"}})
	require.NoError(t, err)
	t.Cleanup(phone.Close)
	return &machine{s, phone, home}
}

// backgrounded is a command that goes on until end is called, which answers what it said.
type backgrounded struct {
	end       func() outcome
	out, errs *lockedBuffer
}

func (m *machine) background(args ...string) *backgrounded {
	ctx, cancel := context.WithCancel(context.Background())
	var (
		going     sync.WaitGroup
		code      int
		out, errs lockedBuffer
	)
	a := &app{env: env.Real(), in: strings.NewReader(""), out: &out, errs: &errs, environ: m.environ}
	going.Go(func() { code = run(ctx, a, args) })
	r := &backgrounded{out: &out, errs: &errs}
	r.end = sync.OnceValue(func() outcome { cancel(); going.Wait(); return outcome{code, out.String(), errs.String()} })
	m.t.Cleanup(func() { r.end() })
	return r
}

// shows waits until a text was printed.
func (m *machine) shows(on *lockedBuffer, text string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return strings.Contains(on.String(), text) }, time.Minute, 20*time.Millisecond, "never shows %q", text)
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu      sync.Mutex // guards content
	content bytes.Buffer
}

// Write appends.
func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(text)
}

// String answers what was written so far.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

// sends has the phone send a prompt and waits for the end of its turn.
func (m *machine) sends(session, text string) trace.TurnEnd {
	m.t.Helper()
	receipt, err := m.phone.SendControl(m.t.Context(), session, wire.IncomingControl{ID: env.Real().NewID(), Kind: wire.ControlSend, Text: &text})
	require.NoError(m.t, err)
	return m.turnEnd(session, receipt.Seq)
}

// turnEnd waits for the first end of a turn after seq.
func (m *machine) turnEnd(session string, seq int64) trace.TurnEnd {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	secret := ""
	if content, err := os.ReadFile(filepath.Join(m.config(), "identity")); err == nil {
		secret = strings.TrimSpace(string(content))
	}
	for frame, err := range m.phone.View(session, client.ViewOptions{After: seq, Identity: secret}).Frames(ctx) {
		require.NoError(m.t, err)
		event, ok := frame.(client.EventFrame)
		if !ok || event.Kind != trace.KindTurnEnd {
			continue
		}
		payload, err := trace.Read(event.Event)
		require.NoError(m.t, err)
		return payload.(trace.TurnEnd)
	}
	return trace.TurnEnd{}
}

// config is the folder of this install's device id and identity.
func (m *machine) config() string {
	for _, pair := range m.environ {
		if root, ok := strings.CutPrefix(pair, "XDG_CONFIG_HOME="); ok {
			return filepath.Join(root, "cairn")
		}
	}
	return ""
}

func (m *machine) held(session string, held bool) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		detail, err := m.phone.GetSession(m.t.Context(), session)
		return err == nil && (detail.Lease != nil) == held
	}, time.Minute, 20*time.Millisecond)
}

func TestRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	agent := acpagent.Command(t)
	t.Run("run shares an agent, prints the session, and gives it back on ctrl-C", func(t *testing.T) {
		command := m.background(append([]string{"run", "--session", "build", "--root", t.TempDir(), "--"}, agent...)...)
		m.held("build", true)
		require.Equal(t, trace.TurnCompleted, m.sends("build", "say hello from the agent").Status)
		m.refused(exitFailed, []string{"another cairn on this machine", "cairn attach"}, append([]string{"run", "--session", "build", "--"}, agent...)...)
		got := command.end()
		require.Equal(t, exitDone, got.code, got.errs)
		require.Contains(t, got.out, "hello from the agent")
		require.Contains(t, got.out, "completed")
		require.Contains(t, got.errs, "cairn attach build")
		m.held("build", false)
	})
	t.Run("run on a session that another device executes says who, and --force takes it over", func(t *testing.T) {
		_, err := m.phone.ClaimLease(t.Context(), "build", client.Claim{})
		require.NoError(t, err)
		m.refused(exitFailed, []string{"phone executes this session", "--force"}, append([]string{"run", "--session", "build", "--"}, agent...)...)
		m.background(append([]string{"run", "--force", "--session", "build", "--"}, agent...)...)
		require.Equal(t, trace.TurnCompleted, m.sends("build", "say mine").Status)
	})
	t.Run("SS-CON-3 when the lease is taken the agent stops and run goes on as a viewer that says who drives", func(t *testing.T) {
		command := m.background(append([]string{"run", "--session", "taken", "--"}, agent...)...)
		m.shows(command.out, "agent  ")
		_, err := m.phone.ClaimLease(t.Context(), "taken", client.Claim{Force: true})
		require.NoError(t, err)
		executor, err := m.phone.Execute(t.Context(), "taken", client.ExecutorOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			detail, err := m.phone.GetSession(t.Context(), "taken")
			return err == nil && slices.ContainsFunc(detail.Presence, func(p wire.Presence) bool { return p.DeviceID != m.phone.DeviceID() && !p.Executor })
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, executor.Emit(t.Context(), trace.Must("", trace.Assistant{Text: "said by the phone", Final: true})))
		require.NoError(t, executor.Flush(t.Context()))
		m.shows(command.out, "said by the phone")
		m.shows(command.errs, "viewer from here on")
		require.NoError(t, executor.Stop(t.Context()))
		got := command.end()
		require.Equal(t, exitDone, got.code, got.errs)
		require.Contains(t, got.errs, "viewer from here on")
		require.Contains(t, got.out, "said by the phone")
	})
	t.Run("SS-E2E-1 an encrypted session is said to be, and what stays in clear", func(t *testing.T) {
		command := m.background(append([]string{"run", "--e2e", "--session", "secret", "--"}, agent...)...)
		m.held("secret", true)
		require.Equal(t, trace.TurnCompleted, m.sends("secret", "say hush").Status)
		require.Contains(t, m.done("session", "tail", "secret"), "hush", "this device reads it")
		got := command.end()
		require.Contains(t, got.errs, "In clear")
		require.Contains(t, got.out, "hush")
		page, err := m.phone.Events(t.Context(), "secret", client.EventsQuery{})
		require.NoError(t, err)
		for _, event := range page.Events {
			require.Equal(t, event.Kind != wire.KindControl, client.IsSealed(event.Payload), "%s", event.Kind)
		}
		m.refused(exitFailed, []string{"not end-to-end encrypted"}, append([]string{"run", "--e2e", "--session", "build", "--"}, agent...)...)
	})
	t.Run("an agent that does not start is explained", func(t *testing.T) {
		got := m.call("run", "--session", "none", "--", "/no/such/agent")
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.errs, "the agent does not start")
		require.Contains(t, got.errs, "/no/such/agent")
		got = m.call(append([]string{"run", "--session", "none", "--"}, acpagent.Command(t, "auth")...)...)
		require.Equal(t, exitFailed, got.code)
		_, err := m.phone.GetSession(t.Context(), "none")
		require.True(t, client.IsCode(err, code.NotFound), "nothing is left of it: %v", err)
	})
}

func TestAgentCommand(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	quoted := "'" + strings.Join(acpagent.Command(t), "' '") + "'"
	_, err := m.phone.CreateSession(t.Context(), client.NewSession{SessionKey: "build"})
	require.NoError(t, err)
	command := m.background("agent", "--linger", "1s", "--root", t.TempDir(), "--command", quoted)
	device := ""
	require.Eventually(t, func() bool {
		devices, err := m.phone.Devices(t.Context())
		for _, one := range devices {
			if one.Platform == wire.PlatformCLI && len(client.Recipients([]wire.Device{one})) == 1 {
				device = one.ID
			}
		}
		return err == nil && device != ""
	}, time.Minute, 20*time.Millisecond)
	text := "say done from afar"
	receipt, err := m.phone.Dispatch(t.Context(), "build", wire.Dispatch{DeviceID: device, Text: &text})
	require.NoError(t, err)
	require.Equal(t, trace.TurnCompleted, m.turnEnd("build", receipt.Seq).Status)
	m.held("build", false)
	got := command.end()
	require.Equal(t, exitDone, got.code, got.errs)
	require.Contains(t, got.errs, device)
	require.Contains(t, got.errs, "begun")
}
