package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
)

// shell calls commands in an environment of its own.
type shell struct {
	t       *testing.T
	environ []string
	stdin   string

	interactive bool // somebody can be asked
}

func newShell(t *testing.T, environ ...string) *shell {
	t.Helper()
	folder := t.TempDir()
	return &shell{t: t, environ: append([]string{
		"XDG_CONFIG_HOME=" + filepath.Join(folder, "config"), "CAIRN_DATABASE=sqlite:" + filepath.Join(folder, "cairn.db"),
	}, environ...)}
}

type outcome struct {
	code int
	out  string
	errs string
}

func (s *shell) call(args ...string) outcome { return s.callWith(s.t.Context(), args...) }

func (s *shell) callWith(ctx context.Context, args ...string) outcome {
	var out, errs bytes.Buffer
	a := &app{env: env.Real(), in: strings.NewReader(s.stdin), out: &out, errs: &errs, environ: s.environ, interactive: s.interactive}
	code := run(ctx, a, args)
	return outcome{code, out.String(), errs.String()}
}

// done calls a command that must succeed without a word on standard error.
func (s *shell) done(args ...string) string {
	s.t.Helper()
	got := s.call(args...)
	require.Equal(s.t, exitDone, got.code, "%v: %s", args, got.errs)
	require.Empty(s.t, got.errs, "%v", args)
	return got.out
}

// decoded is done with --json, decoded.
func decoded[T any](s *shell, args ...string) T {
	s.t.Helper()
	var value T
	require.NoError(s.t, json.Unmarshal([]byte(s.done(append(args, "--json")...)), &value))
	return value
}

// refused calls a command that must end with code, say every part on standard error, and nothing else.
func (s *shell) refused(code int, parts []string, args ...string) {
	s.t.Helper()
	got := s.call(args...)
	require.Equal(s.t, code, got.code, "%v: %s", args, got.errs)
	require.Empty(s.t, got.out, "%v", args)
	for _, part := range parts {
		require.Contains(s.t, got.errs, part, "%v", args)
	}
	require.NotContains(s.t, got.errs, "goroutine", "%v", args)
}
