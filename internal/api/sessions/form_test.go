package sessions

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func fieldErrors(t *testing.T, err error) map[string][]string {
	t.Helper()
	refusal := new(fault.Error)
	require.ErrorAs(t, err, &refusal)
	details, ok := refusal.Details.(wire.FieldErrors)
	require.True(t, ok)
	return details.FieldErrors
}

func TestForm(t *testing.T) {
	t.Parallel()
	t.Run("SS-HTTP-4 what is no JSON object is refused", func(t *testing.T) {
		t.Parallel()
		for _, body := range []string{
			`{`, `[]`, `"x"`, `null`, `{"a":1,}`, `{"a":1} {}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"a":01}`, `{a:1}`, `{"a":"` + "\n" + `"}`,
		} {
			_, err := parseForm([]byte(body))
			require.Error(t, err, body)
		}
		for _, body := range []string{``, ` `, `{}`, ` {"a":{"b":1,"b":2}} `} {
			_, err := parseForm([]byte(body))
			require.NoError(t, err, body)
		}
	})
	t.Run("SS-HTTP-4 every bad field is named", func(t *testing.T) {
		t.Parallel()
		f, err := parseForm([]byte(`{"events":[{"kind":"","ts":1.5},{"kind":"k","turn_id":7,"payload":[]}],"expected_last_seq":-1}`))
		require.NoError(t, err)
		f.batch()
		problems := fieldErrors(t, f.err())
		require.Len(t, problems["events"], 4)
		require.Len(t, problems["expected_last_seq"], 1)
		require.Contains(t, strings.Join(problems["events"], "\n"), "[1].turn_id")
	})
	t.Run("SS-OBJ-4 U+0000 and lone surrogates are refused around the payload", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{`"a\u0000"`, `"\ud800"`, `"\udc00x"`} {
			f, err := parseForm([]byte(`{"id":` + text + `}`))
			require.NoError(t, err)
			f.text("id", 0, 10)
			require.Contains(t, fieldErrors(t, f.err()), "id")
		}
	})
	t.Run("SS-OBJ-2 characters are code points", func(t *testing.T) {
		t.Parallel()
		for n, fits := range map[int]bool{64: true, 65: false} {
			f, err := parseForm([]byte(`{"kind":"` + strings.Repeat("😀", n) + `"}`))
			require.NoError(t, err)
			require.Equal(t, fits, f.text("kind", 1, wire.MaxKind) != nil)
		}
	})
	t.Run("SS-OBJ-1 depth is counted outside strings", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, 1, depth([]byte(`{"a":"[[{{\"[["}`)))
		require.Equal(t, 3, depth([]byte(`{"a":[{}],"b":{}}`)))
	})
}

// Whatever a client sends, an accepted batch has sound texts and payloads that are JSON objects, kept
// byte for byte.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`{"events":[{"kind":"k","payload":{"a":1,"a":"\ud800"}}]}`, `{"events":[{"kind":"k","ts":1e3,"client_event_id":"x"}],"expected_last_seq":0}`,
		`{"events":[]}`, `{"events":[{"kind":"\u0000"}]}`, "{\"events\":[{\"kind\":\"k\",\"payload\": {\r\n} }]}", `{"events":[1,null,{}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, err := parseForm(body)
		if err != nil {
			return
		}
		batch := form.batch()
		events, expected := batch.Events, batch.ExpectedLastSeq
		if form.err() != nil {
			return
		}
		require.NotEmpty(t, events)
		require.True(t, expected == nil || *expected >= 0)
		for _, event := range events {
			require.True(t, utf8.ValidString(event.Kind))
			require.NotContains(t, event.Kind, "\x00")
			if event.Payload != nil {
				require.True(t, json.Valid(event.Payload))
				require.Equal(t, byte('{'), event.Payload[0])
				require.True(t, bytes.Contains(body, event.Payload))
			}
		}
	})
}
