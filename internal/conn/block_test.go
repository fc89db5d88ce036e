package conn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBlockEncodings(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		frame Frame
		ws    string
		event string
	}{
		{"plain", Frame{Name: "lease", Object: []byte(`{"a":1}`)},
			`{"v":1,"t":"lease","a":1}`, "event: lease\ndata: {\"v\":1,\"a\":1}\n\n"},
		{"SS-STR-3 an event carries its seq as id", Frame{Name: "event", ID: 42, Object: []byte(`{"a":1}`)},
			`{"v":1,"t":"event","a":1}`, "event: event\nid: 42\ndata: {\"v\":1,\"a\":1}\n\n"},
		{"empty object", Frame{Name: "reset", Object: []byte(`{}`)},
			`{"v":1,"t":"reset"}`, "event: reset\ndata: {\"v\":1}\n\n"},
		{"no object", Frame{Name: "reset"},
			`{"v":1,"t":"reset"}`, "event: reset\ndata: {\"v\":1}\n\n"},
		{"white space", Frame{Name: "x", Object: []byte(" \t{ }")},
			`{"v":1,"t":"x" }`, "event: x\ndata: {\"v\":1 }\n\n"},
		{"line breaks become data lines", Frame{Name: "x", Object: []byte("{\r\n\"a\":\r1,\n\"b\":\n\r2\n}\n")},
			"{\"v\":1,\"t\":\"x\",\r\n\"a\":\r1,\n\"b\":\n\r2\n}\n",
			"event: x\ndata: {\"v\":1,\ndata: \"a\":\ndata: 1,\ndata: \"b\":\ndata: \ndata: 2\ndata: }\ndata: \n\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := NewBlock(c.frame)
			f, err := ws.ReadFrame(bytes.NewReader(b.bytes(formatWebSocket)))
			require.NoError(t, err)
			require.Equal(t, c.ws, string(f.Payload))
			require.Equal(t, c.event, string(b.bytes(formatSSEUnframed)))
			require.Equal(t, fmt.Sprintf("%x\r\n%s\r\n", len(c.event), c.event), string(b.bytes(formatSSE)))
		})
	}
}

func TestBlockRejectsWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, object := range []string{"[]", "1", "{", " ", `"{}"`} {
		require.Panics(t, func() { NewBlock(Frame{Name: "x", Object: []byte(object)}) }, "%q", object)
	}
}

func TestBlockSlices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		frames := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Frame {
			return Frame{
				Name:   rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "name"),
				ID:     rapid.Int64Range(0, 9).Draw(t, "id"),
				Object: fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("y", rapid.IntRange(0, 70_000).Draw(t, "size"))),
			}
		}), 0, 5).Draw(t, "frames")
		b := NewBlock(frames...)
		from := rapid.IntRange(0, len(frames)).Draw(t, "from")
		to := rapid.IntRange(from, len(frames)).Draw(t, "to")
		outer := b.Slice(from, to)
		inner := rapid.IntRange(0, outer.Len()).Draw(t, "inner")
		part := outer.Slice(inner, outer.Len())
		require.Equal(t, to-from-inner, part.Len())
		for f := range formats {
			var want []byte
			for i := from + inner; i < to; i++ {
				want = frames[i].append(want, f)
			}
			require.True(t, bytes.Equal(want, part.bytes(f)))
		}
	})
	require.Panics(t, func() { block("a", "b").Slice(1, 3) })
	require.Panics(t, func() { block("a", "b").Slice(0, 1).Slice(0, 2) })
}

func TestBlockIsEncodedOnce(t *testing.T) {
	t.Parallel()
	b := block("a", "b", "c")
	for f := range formats {
		whole, part := b.bytes(f), b.Slice(1, 2).bytes(f)
		require.Same(t, &whole[len(block("a").bytes(f))], &part[0], "slices share the bytes")
		require.Same(t, &whole[0], &b.bytes(f)[0])
	}
}

func TestEncodedFrameIsTheObject(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOf(rapid.StringMatching(`k[a-z]*`), rapid.String()).Draw(t, "object")
		object, err := json.MarshalIndent(value, "", rapid.SampledFrom([]string{"", "\t"}).Draw(t, "indent"))
		require.NoError(t, err)
		b := NewBlock(Frame{Name: "n", Object: object})
		f, err := ws.ReadFrame(bytes.NewReader(b.bytes(formatWebSocket)))
		require.NoError(t, err)
		requireMembers(t, f.Payload, value, `"n"`)
		var data []string
		for line := range strings.SplitSeq(string(b.bytes(formatSSEUnframed)), "\n") {
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, text)
			}
		}
		requireMembers(t, []byte(strings.Join(data, "\n")), value, "")
	})
}

func requireMembers(t *rapid.T, text []byte, want map[string]string, name string) {
	var got map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &got), "%s", text)
	require.Equal(t, "1", string(got["v"]))
	require.Equal(t, name, string(got["t"]))
	delete(got, "v")
	delete(got, "t")
	require.Len(t, got, len(want))
	for key, value := range want {
		var s string
		require.NoError(t, json.Unmarshal(got[key], &s))
		require.Equal(t, value, s)
	}
}
