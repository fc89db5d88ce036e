package cli

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/cairnsync/cairn/internal/cli/demo/view"
	"github.com/cairnsync/cairn/internal/env"
)

// onTerminal answers the lines a command prints at a terminal of so many columns, short output only.
func (s *shell) onTerminal(columns uint16, args ...string) []string {
	s.t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(s.t, err)
	defer person.Close()
	require.NoError(s.t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(s.t, err)
	program, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(s.t, err)
	require.NoError(s.t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	var errs bytes.Buffer
	a := &app{env: env.Real(), in: strings.NewReader(""), out: program, errs: &errs, environ: s.environ, terminal: isTerminal(program)}
	status := run(s.t.Context(), a, args)
	require.NoError(s.t, program.Close())
	require.Equal(s.t, exitDone, status, errs.String())
	text, err := io.ReadAll(person)
	require.ErrorIs(s.t, err, unix.EIO, "the end of a terminal whose other side is closed")
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), "\r", "")), "\n")
}

func TestListsAtATerminal(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work", "--title", strings.Repeat("long ", 20))
	alice.done("session", "create", "--title", strings.Repeat("long ", 20))
	for _, line := range append(alice.onTerminal(80, "session", "list"), alice.onTerminal(60, "device", "list")...) {
		require.LessOrEqual(t, view.Width(line), 80, line)
	}
	require.Equal(t, strings.TrimSpace(alice.done("session", "list", "--json")), strings.Join(alice.onTerminal(80, "session", "list", "--json"), "\n"))
	require.Equal(t, strings.TrimSpace(alice.done("session", "list")), strings.Join(alice.onTerminal(200, "session", "list"), "\n"))
}
