package protocol

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	cursor := int64(7)
	good := []struct {
		name, text string
		want       Op
	}{
		{"identify", `{"op":"identify","d":{"access_token":"t","dpop":"p","device_id":"d","protocol_version":1,"cursor":7,"client":{"platform":"ios","version":"1"}}}`,
			Op{"identify", "", &wire.Identify{AccessToken: "t", DPoP: "p", DeviceID: "d", ProtocolVersion: 1, Cursor: &cursor, Client: &wire.ClientInfo{Platform: "ios", Version: "1"}}}},
		{"resume", ` {"d":{"gateway_session_id":"g","cursor":3},"op":"resume"} `, Op{"resume", "", &wire.Resume{GatewaySessionID: "g", Cursor: 3}}},
		{"heartbeat without a body", `{"op":"heartbeat"}`, Op{"heartbeat", "", &wire.Heartbeat{}}},
		{"focus", `{"op":"focus","d":{"thread_ids":["a"],"background_thread_ids":["b"],"idle":true,"ref":"r"}}`,
			Op{"focus", "r", &wire.Focus{ThreadIDs: []string{"a"}, BackgroundThreadIDs: []string{"b"}, Idle: true, Ref: "r"}}},
		{"typing.stop", `{"op":"typing.stop","d":{"thread_id":"a","ref":"r"}}`, Op{"typing.stop", "r", &wire.Typing{ThreadID: "a", Ref: "r"}}},
		{"reauth", `{"op":"reauth","d":{"access_token":"a","dpop":"p"}}`, Op{"reauth", "", &wire.Reauth{AccessToken: "a", DPoP: "p"}}},
		{"an op of agents", `{"op":"ack","d":{"seq":3,"ref":"r"}}`, Op{"ack", "r", nil}},
		{"an op of statistics", `{"op":"stats.subscribe","d":{"space_id":"x"}}`, Op{"stats.subscribe", "", nil}},
	}
	for _, c := range good {
		t.Run("ES-6.2 "+c.name, func(t *testing.T) {
			t.Parallel()
			got, rejection := Decode([]byte(c.text))
			require.Nil(t, rejection)
			require.Equal(t, c.want, got)
		})
	}
	bad := []struct{ name, text string }{
		{"no JSON", `hello`}, {"nothing", ``}, {"half an object", `{"op":"heartbeat"`}, {"a list", `[]`}, {"a string", `"heartbeat"`},
		{"two values", `{"op":"heartbeat"} {}`}, {"trailing bytes", `{"op":"heartbeat"}x`}, {"no op", `{"d":{}}`}, {"an op that is no string", `{"op":3}`},
		{"an unknown field beside op", `{"op":"heartbeat","x":1}`}, {"an unknown field", `{"op":"heartbeat","d":{"last":1}}`},
		{"another spelling", `{"op":"heartbeat","d":{"Last_Seq":1}}`}, {"a repeated name", `{"op":"heartbeat","d":{"last_seq":1,"last_seq":1}}`},
		{"a repeated op", `{"op":"heartbeat","op":"heartbeat"}`}, {"a repeated name deep inside", `{"op":"ack","d":{"a":{"b":1,"b":1}}}`},
		{"invalid UTF-8", "{\"op\":\"heartbeat\",\"d\":{\"ref\":\"\xff\"}}"}, {"null", `{"op":"heartbeat","d":null}`},
		{"null inside", `{"op":"focus","d":{"thread_ids":null}}`}, {"null in a list", `{"op":"focus","d":{"thread_ids":[null]}}`},
		{"a wrong type", `{"op":"heartbeat","d":{"last_seq":"1"}}`}, {"a fraction", `{"op":"heartbeat","d":{"last_seq":1.5}}`},
		{"a number that is too large", `{"op":"heartbeat","d":{"last_seq":9223372036854775808}}`}, {"a body that is no object", `{"op":"heartbeat","d":[]}`},
		{"half a surrogate", `{"op":"heartbeat","d":{"ref":"\ud800"}}`}, {"depth", `{"op":"ack","d":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`},
	}
	for _, c := range bad {
		t.Run("ES-6.4 4002 "+c.name, func(t *testing.T) {
			t.Parallel()
			_, rejection := Decode([]byte(c.text))
			require.NotNil(t, rejection)
			require.Equal(t, code.CloseDecode, rejection.Code)
		})
	}
	t.Run("ES-6.4 4001 an op nobody knows", func(t *testing.T) {
		t.Parallel()
		_, rejection := Decode([]byte(`{"op":"dance","d":{"x":1}}`))
		require.Equal(t, code.CloseUnknownOp, rejection.Code)
	})
}

// FuzzDecode: what is accepted is valid JSON without null, and means the same when it is written again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"op":"identify","d":{"protocol_version":1}}`, `{"op":"focus","d":{"thread_ids":["a"]}}`, `{"op":"ack","d":{"seq":1}}`,
		`{"op":"heartbeat","d":{"last_seq":3,"ref":"x"}}`, `{"op":"typing.start","d":{"thread_id":"é"}}`, `{"op":"x","d":[1,{"a":null}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		op, rejection := Decode(text)
		if rejection != nil {
			require.Contains(t, []code.Close{code.CloseDecode, code.CloseUnknownOp}, rejection.Code)
			return
		}
		require.True(t, json.Valid(text))
		if op.Body == nil {
			require.True(t, reserved[op.Name])
			return
		}
		again, err := json.Marshal(map[string]any{"op": op.Name, "d": op.Body})
		require.NoError(t, err)
		if focus, ok := op.Body.(*wire.Focus); ok && focus.ThreadIDs == nil {
			return // a missing list is written as null, which nobody accepts
		}
		same, rejection := Decode(again)
		require.Nil(t, rejection)
		require.Equal(t, op, same)
	})
}
