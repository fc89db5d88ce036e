package workspace

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		`{"op":"dispatch","d":{"id":"x","seq":1,"type":"message.created","schema_version":1,"payload":{"message":{"id":"m","thread_seq":-5}}}}`,
		`{"op":"dispatch","d":{"id":"x","seq":9223372036854775807,"type":"access.changed","payload":{"removed":[{"kind":"space"}]}}}`,
		`{"op":"dispatch","d":{"id":"x","seq":2,"type":"reaction.added","payload":{"count":-1,"emoji":"e"}}}`,
		`{"op":"hello","d":{"heartbeat_interval_ms":-1}}`, `{"op":"cursor","d":{"seq":1}}`, `{"op":"a","op":"b"}`, `{}`, `null`, "\xff",
		`{"op":"dispatch","d":null}`, `{"op":"dispatch","d":{"payload":null}}`,
	} {
		f.Add([]byte(seed))
	}
	state := NewState("d")
	state.Start(wire.Snapshot{HeadSeq: 0, SyncEpoch: "e", Principal: wire.Principal{ID: "me"}})
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := decodeFrame(data)
		if err != nil {
			return
		}
		require.NotEmpty(t, frame.Op)
		event, err := decodeEvent(frame.D)
		if err != nil {
			return
		}
		_ = state.Apply(event) // whatever a server says, nothing panics
		_, _ = json.Marshal(state.Export())
	})
}

func FuzzKey(f *testing.F) {
	key, err := NewKey()
	require.NoError(f, err)
	text, err := key.PEM()
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if parsed, err := ParseKey(data); err == nil {
			_, err := parsed.Prove(Proof{Method: "GET", URL: "https://x"})
			require.NoError(t, err)
		}
	})
}

func FuzzWait(f *testing.F) {
	f.Add("7")
	f.Add("Wed, 21 Oct 2099 07:28:00 GMT")
	f.Add("99999999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		require.LessOrEqual(t, secondsIn(text), maxWait)
		require.GreaterOrEqual(t, secondsIn(text).Nanoseconds(), int64(0))
	})
}
