package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// seat is a command with somebody in front of it.
type seat struct {
	t         *testing.T
	keys      *os.File // what the person has in hand
	out, errs *lockedBuffer
	ended     chan int
}

func (m *machine) sit(args ...string) *seat {
	m.t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(m.t, err)
	require.NoError(m.t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(m.t, err)
	terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(m.t, err)
	require.NoError(m.t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	s := &seat{m.t, person, &lockedBuffer{}, &lockedBuffer{}, make(chan int, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	a := &app{env: env.Real(), in: terminal, out: terminal, errs: s.errs, environ: m.environ, terminal: true, interactive: true}
	var going sync.WaitGroup
	going.Go(func() {
		s.ended <- run(ctx, a, args)
		_ = terminal.Close() // so that the reader ends
	})
	going.Go(func() { _, _ = io.Copy(s.out, person) })
	m.t.Cleanup(func() {
		cancel()
		going.Wait()
		_ = person.Close()
	})
	return s
}

// leaves types what leaves, and answers the exit code.
func (s *seat) leaves() int {
	s.t.Helper()
	_, err := io.WriteString(s.keys, "\x03\x03")
	require.NoError(s.t, err)
	select {
	case code := <-s.ended:
		return code
	case <-time.After(time.Minute):
		require.FailNow(s.t, "it does not end")
		return 0
	}
}

func TestRunAtATerminal(t *testing.T) {
	t.Parallel()
	t.Run("takes no session away that nobody said to take", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		created, err := m.phone.CreateSession(t.Context(), client.NewSession{SessionKey: "build"})
		require.NoError(t, err)
		_, err = m.phone.ClaimLease(t.Context(), created.ID, client.Claim{})
		require.NoError(t, err)
		command := append([]string{"run", "--session", "build", "--root", t.TempDir(), "--"}, acpagent.Command(t)...)
		s := m.sit(command...)
		m.shows(s.out, "phone drives this session; /take takes it over")
		require.Equal(t, exitFailed, s.leaves())
		require.Contains(t, s.errs.String(), "phone drives this session: the agent did not run")
		detail, err := m.phone.GetSession(t.Context(), created.ID)
		require.NoError(t, err)
		require.Equal(t, m.phone.DeviceID(), detail.Lease.DeviceID)

		forced := m.sit(append([]string{"run", "--force"}, command[1:]...)...)
		m.shows(forced.out, "this device drives now")
		require.Equal(t, exitDone, forced.leaves(), forced.errs)
	})
	t.Run("says why its agent did not start, and fails", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		s := m.sit("run", "--session", "build", "--root", t.TempDir(), "--", "/no/such/agent")
		m.shows(s.out, "the agent does not start")
		require.Equal(t, exitFailed, s.leaves())
		require.Contains(t, s.errs.String(), "the agent does not start")
		require.Contains(t, s.errs.String(), "/no/such/agent")
	})
}

func TestLeavingWithoutAServer(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	target, err := url.Parse(strings.TrimPrefix(m.environ[slices.IndexFunc(m.environ, func(pair string) bool { return strings.HasPrefix(pair, "CAIRN_URL=") })], "CAIRN_URL="))
	require.NoError(t, err)
	var cut atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	way := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(way.Close)
	m.environ = append(m.environ, "CAIRN_URL="+way.URL)
	s := m.sit(append([]string{"run", "--session", "build", "--root", t.TempDir(), "--"}, acpagent.Command(t)...)...)
	m.shows(s.out, "this device drives now")
	text := "say at work\nhang"
	_, err = m.phone.SendControl(t.Context(), "build", wire.IncomingControl{ID: env.Real().NewID(), Kind: wire.ControlSend, Text: &text})
	require.NoError(t, err)
	m.shows(s.out, "at work")
	cut.Store(true)
	require.Equal(t, exitFailed, s.leaves())
	require.Contains(t, s.out.String(), "stopping the agent and storing what it said")
	if said := s.errs.String(); !strings.Contains(said, "release lease") { // then all of it was stored before the cut
		require.Contains(t, said, "could not be stored yet")
		require.Contains(t, said, "journal")
	}
}
