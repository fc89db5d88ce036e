package sessions

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/wire/code"
)

func TestBackoffDelay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		failures := rapid.IntRange(0, 200).Draw(t, "failures")
		asked := time.Duration(rapid.Int64Range(0, int64(maxRetryAfter)).Draw(t, "asked"))
		chance := rapid.Float64Range(0, 0.999999).Draw(t, "chance")
		wait := backoffDelay(failures, asked, chance)
		require.GreaterOrEqual(t, wait, max(minBackoff, asked))
		require.LessOrEqual(t, wait, max(maxBackoff, asked+asked/10))
	})
	require.Equal(t, minBackoff, backoffDelay(0, 0, 0))
	require.Equal(t, maxBackoff/2, backoffDelay(50, 0, 0))
}

func TestPosition(t *testing.T) {
	t.Parallel()
	t.Run("SS-STR-2 only the event that follows is delivered", func(t *testing.T) {
		t.Parallel()
		at := position{last: 7}
		for seq, want := range map[int64]verdict{-1: duplicate, 0: duplicate, 6: duplicate, 7: duplicate, 8: deliver, 9: hole, 1 << 62: hole} {
			require.Equal(t, want, at.judge(seq), "seq %d", seq)
		}
	})
	t.Run("strikes count until an event gets through", func(t *testing.T) {
		t.Parallel()
		at := position{last: 3}
		for range maxStrikes {
			require.False(t, at.broken())
			at = at.struck()
		}
		require.True(t, at.broken())
		require.Equal(t, position{last: 4}, at.advanced())
	})
}

func TestTerm(t *testing.T) {
	t.Parallel()
	start := time.Now()
	o := ExecutorOptions{}.withDefaults()
	at := start.Add
	held := keptSince(start, o)
	cases := []struct {
		name  string
		term  term
		after time.Duration
		want  duty
		until time.Duration
	}{
		{"fresh", held, 0, rest, DefaultHeartbeat},
		{"heartbeat due", held, DefaultHeartbeat, beat, DefaultHeartbeat},
		{"still due just before the end", held, 29*time.Second - 1, beat, 29*time.Second - 1},
		{"over before the promised end", held, 29 * time.Second, over, 29 * time.Second},
		{"a missed heartbeat follows soon", held.missed(at(8*time.Second), 0), 8 * time.Second, rest, 8250 * time.Millisecond},
		{"a missed heartbeat never prolongs", held.missed(at(28900*time.Millisecond), 0), 29 * time.Second, over, 29 * time.Second},
		{"asked to wait past the end", held.missed(at(8*time.Second), time.Minute), 9 * time.Second, rest, 29 * time.Second},
		{"asked for now", held.due(at(time.Second)), time.Second, beat, time.Second},
	}
	for _, c := range cases {
		t.Run("SS-CON-3 "+c.name, func(t *testing.T) {
			t.Parallel()
			what, until := c.term.ask(at(c.after))
			require.Equal(t, c.want, what)
			require.Equal(t, at(c.until), until)
		})
	}
	t.Run("SS-CON-3 whatever happens, nothing executes past the term", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			now, granted, held := start, start, held
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "passed")))
				if what, _ := held.ask(now); what == over {
					return
				}
				require.Less(t, now.Sub(granted), LeaseTerm)
				if rapid.Bool().Draw(t, "granted") {
					granted, held = now, keptSince(now, o)
				} else {
					held = held.missed(now, 0)
				}
			}
		})
	})
	require.Equal(t, MaxHeartbeat, ExecutorOptions{Heartbeat: time.Hour}.withDefaults().Heartbeat)
}

type parsed struct{ name, data string }

func parseAll(reader io.Reader, limit int) ([]parsed, error) {
	var all []parsed
	p := newParser(reader, limit)
	for {
		name, data, err := p.next()
		if err != nil {
			return all, err
		}
		all = append(all, parsed{name, string(data)})
	}
}

func TestParser(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, text string
		want       []parsed
	}{
		{"LF", "event: a\ndata: 1\n\ndata:2\n\n", []parsed{{"a", "1"}, {"message", "2"}}},
		{"CR LF", "event: a\r\ndata: 1\r\n\r\nevent: b\r\ndata: 2\r\n\r\n", []parsed{{"a", "1"}, {"b", "2"}}},
		{"CR", "event: a\rdata: 1\r\revent: b\rdata: 2\r\r", []parsed{{"a", "1"}, {"b", "2"}}},
		{"mixed ends", "event: a\rdata: 1\n\r\ndata: 2\n\r", []parsed{{"a", "1"}, {"message", "2"}}},
		{"several data lines", "data: 1\ndata\ndata:  2\n\n", []parsed{{"message", "1\n\n 2"}}},
		{"comments, ids, retry, unknown fields", ": ping 1\n\nid: 4\nretry: 1\nfoo: bar\n: x\ndata: 1\n\n", []parsed{{"message", "1"}}},
		{"byte order mark", "\xef\xbb\xbfdata: 1\n\n", []parsed{{"message", "1"}}},
		{"a name without data is no event", "event: a\n\ndata: 1\n\n", []parsed{{"message", "1"}}},
		{"cut off", "data: 1\n\ndata: 2\n", []parsed{{"message", "1"}}},
		{"last name wins", "event: a\nevent: b\ndata: 1\n\n", []parsed{{"b", "1"}}},
		{"empty data", "data\n\n", []parsed{{"message", ""}}},
	}
	for _, c := range cases {
		t.Run("SS-STR-3 "+c.name, func(t *testing.T) {
			t.Parallel()
			for _, reader := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				got, err := parseAll(reader, 1<<20)
				require.ErrorIs(t, err, io.EOF)
				require.Equal(t, c.want, got)
			}
		})
	}
	t.Run("limits", func(t *testing.T) {
		t.Parallel()
		_, err := parseAll(strings.NewReader("data: "+strings.Repeat("x", 99)+"\n\n"), 100)
		require.ErrorIs(t, err, io.EOF)
		for _, text := range []string{
			"data: " + strings.Repeat("x", 100) + "\n\n", strings.Repeat("data: xxxxxxxxx\n", 11),
			": " + strings.Repeat("x", 200), strings.Repeat("\xef", 200),
		} {
			_, err := parseAll(strings.NewReader(text), 100)
			require.ErrorIs(t, err, ErrFrameTooLarge)
		}
	})
	t.Run("an event ended by CR does not wait for what follows", func(t *testing.T) {
		t.Parallel()
		reader, writer := io.Pipe()
		go func() { _, _ = writer.Write([]byte("data: 1\r\r")) }()
		_, data, err := newParser(reader, 100).next()
		require.NoError(t, err)
		require.Equal(t, "1", string(data))
	})
}

func FuzzParser(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: 1\r\rdata: 2\n\n: x\n"))
	f.Add([]byte("\xef\xbb\xbfdata:\n\n\r\r"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err := parseAll(strings.NewReader(string(text)), 64)
		bytewise, bytewiseErr := parseAll(iotest.OneByteReader(strings.NewReader(string(text))), 64)
		require.Equal(t, errors.Is(err, io.EOF), errors.Is(bytewiseErr, io.EOF))
		require.Equal(t, whole, bytewise)
		for _, event := range whole {
			require.LessOrEqual(t, len(event.data), 64)
			require.NotContains(t, event.data, "\r")
			require.NotContains(t, event.name, "\n")
		}
	})
}

func TestAPIError(t *testing.T) {
	t.Parallel()
	held := &APIError{Code: code.LeaseHeld, Message: "Another device holds it. (holder_device_id=abc-1)"}
	require.Equal(t, "abc-1", held.HolderDeviceID())
	held.Details = []byte(`{"holder_device_id":"def"}`)
	require.Equal(t, "def", held.HolderDeviceID())
	require.Empty(t, (&APIError{Message: "Lease expired."}).HolderDeviceID())
	for _, conflict := range []*APIError{
		{Message: "The log has moved on (last_seq=42)."}, {Details: []byte(`{"last_seq":42}`)}, {Message: "last_seq is 42"},
	} {
		seq, said := conflict.LastSeq()
		require.True(t, said)
		require.EqualValues(t, 42, seq)
	}
	_, said := (&APIError{Message: "no"}).LastSeq()
	require.False(t, said)
	require.True(t, IsCode(errors.Join(io.EOF, held), code.LeaseHeld))
	require.False(t, IsCode(io.EOF, code.LeaseHeld))
	fields := (&APIError{Details: []byte(`{"formErrors":[],"fieldErrors":{"kind":["required"]}}`)}).FieldErrors()
	require.Equal(t, []string{"required"}, fields.FieldErrors["kind"])
}
