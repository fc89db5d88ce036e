package acp

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	t.Parallel()
	t.Run("blank lines and carriage returns are left out, a last line needs no newline", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("x", 3<<20)
		from := newLines(iotest.HalfReader(strings.NewReader("\n one\r\n\n" + long + "\ntwo\n \n" + long + long + "\nlast")))
		for _, want := range []string{"one", long, "two", long + long} {
			line, err := from.next()
			require.NoError(t, err)
			require.Equal(t, want, string(line))
		}
		line, err := from.next()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, "last", string(line))
	})
	t.Run("10 MiB with the newline is the most", func(t *testing.T) {
		t.Parallel()
		fits := append(bytes.Repeat([]byte("x"), maxLine-1), '\n')
		line, err := newLines(bytes.NewReader(fits)).next()
		require.NoError(t, err)
		require.Len(t, line, maxLine-1)
		line, err = newLines(bytes.NewReader(append([]byte("x"), fits...))).next()
		require.ErrorIs(t, err, errLong)
		require.NotEmpty(t, line)
		endless := io.MultiReader(bytes.NewReader(fits[:maxLine-1]), strings.NewReader(strings.Repeat("x", 1<<20)))
		_, err = newLines(endless).next()
		require.ErrorIs(t, err, errLong)
	})
}

// Whatever the bytes: the lines are those that strings.Lines finds, less blanks.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n\n b \r\nc"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want []string
		for line := range strings.Lines(string(text)) {
			if trimmed := string(bytes.TrimSpace([]byte(line))); trimmed != "" {
				want = append(want, trimmed)
			}
		}
		from := newLines(bytes.NewReader(text))
		var got []string
		for {
			line, err := from.next()
			if len(line) > 0 {
				got = append(got, string(line))
			}
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
		require.Equal(t, want, got)
	})
}

// Whatever the line: parse and readUpdate answer a reason or a value, and do not panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":[]}}}`))
	f.Add([]byte(`{"id":1,"result":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(clean(line))
		if len(line) == 0 {
			return
		}
		m, why := parse(line)
		require.Equal(t, m == nil, why != "")
		if m != nil && m.Params != nil {
			update, why := readUpdate(m.Params)
			require.True(t, update == nil || why == "")
		}
	})
}
