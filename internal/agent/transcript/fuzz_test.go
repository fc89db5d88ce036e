package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// fuzz checks, for anything that may stand in a file, what read checks: no panic, valid payloads within the limits, ids
// that are unique; and that reading again gives the same.
func fuzz(f *testing.F, format Format, seeds ...string) {
	f.Helper()
	for _, seed := range seeds {
		content := golden(f, seed)
		f.Add(content)
		for line := range bytes.Lines(content) {
			f.Add(bytes.Clone(line))
			f.Add(append(bytes.Clone(line), line...))
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		_, all := read(t, content, format)
		_, again := read(t, content, format)
		require.Equal(t, all, again)
		require.Equal(t, strings.Count(string(content), "\n"), lastLine(all, content))
	})
}

// lastLine is the number of line ends that were read.
func lastLine(all []Step, content []byte) int {
	last := all[len(all)-1].Line
	if len(content) > 0 && content[len(content)-1] != '\n' {
		last--
	}
	return last
}

func FuzzClaude(f *testing.F) { fuzz(f, Claude, "claude") }

func FuzzCodex(f *testing.F) { fuzz(f, Codex, "codex", "codex_old") }

func FuzzACP(f *testing.F) { fuzz(f, ACP, "acp", "acp_wrapped") }

func FuzzLook(f *testing.F) {
	for _, name := range []string{"claude", "codex", "codex_old", "acp", "acp_wrapped"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		survey, err := Look(bytes.NewReader(content), "")
		if !errors.Is(err, ErrUnknownFormat) {
			require.NoError(t, err)
			require.Contains(t, Formats(), survey.Format)
		}
	})
}

// Whatever object is cut: it stays JSON, fits, and says so.
func FuzzShrink(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"` + strings.Repeat(`\ud83d\ude00ü\n`, 900) + `"}`, `{"a":[` + strings.Repeat("1,", 5000) + `1],"b":{"c":1},"d":1e400}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		const limit = 128 << 10
		if wellFormed(payload) != "" {
			return
		}
		payload = bytes.TrimSpace(payload)
		for _, size := range []int{4 << 10, limit} {
			cut := shrink(payload, size)
			require.True(t, json.Valid(cut), "%s", cut)
			require.True(t, utf8.Valid(cut))
			require.True(t, bytes.HasSuffix(cut, []byte(truncatedField)))
			require.LessOrEqual(t, len(cut), limit)
		}
	})
}
