package sessions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func payloadCases() []testCase {
	return slices.Concat([]testCase{
		{rule: "SS-OBJ-1", name: "a payload comes back with the same meaning (GET)", run: func(t *trial) { casePayloadRead(t, false) }},
		{rule: "SS-OBJ-1", name: "a payload comes back byte for byte (GET, WebSocket)", ours: true, run: func(t *trial) { casePayloadRead(t, true) }},
		{rule: "SS-OBJ-1", name: "a payload sent up a WebSocket keeps its meaning", run: casePayloadUp},
		{rule: "SS-OBJ-1", name: "a malformed payload is refused", run: casePayloadMalformed},
		{rule: "SS-OBJ-1", name: "nesting past the limit is stored whole or refused", run: casePayloadTooDeep},
		{rule: "SS-OBJ-4", name: "U+0000 and lone surrogates are refused outside payloads", ours: true, run: caseForbiddenText},
	},
		bothWays(testCase{rule: "SS-OBJ-1", name: "a payload streams with the same meaning, live and replayed"}, casePayloadStream),
	)
}

// opaquePayloads are objects that a decoder and encoder on the way would change.
func opaquePayloads() []string {
	return []string{
		`{}`,
		`{"n":9007199254740993,"m":-9007199254740993,"big":123456789012345678901234567890}`,
		`{"zero":-0,"exp":1e400,"small":1e-400,"frac":1.10,"cap":1E+2,"one":1.0}`,
		`{"nul":"\u0000","high":"\ud800","low":"\udc00","swapped":"\udc00\ud800"}`,
		`{"z":1,"a":2,"m":3,"10":4,"9":5}`,
		`{"a":1,"a":2,"b":{"c":1,"c":{"d":null,"d":[]}}}`,
		`{"":"","__proto__":{"x":1},"constructor":null}`,
		`{"deep":` + strings.Repeat("[", wire.MaxDepth-1) + strings.Repeat("]", wire.MaxDepth-1) + `}`,
		`{"text":"line\nbreak\ttab \" \\ ` + "\u2028\u2029\u00e9\U0001D11E" + `"}`,
		`{"seq":99,"v":2,"t":"closed","event":"x","data":"y"}`,
	}
}

// spacedPayloads have white space and escapes that only exact bytes keep.
func spacedPayloads() []string {
	return []string{
		"{ \"a\" :\t1 ,\n\"b\":[ 1,\r\n2 , 3 ]\r,\"c\":{ } }",
		`{"escaped":"\u0041\/\u00e9\ud834\udd1e\u003c","raw":"A/é𝄞<&>"}`,
		"{\"data\":\"x\"\n\n,\n\"id\":\n7\n\n}",
	}
}

// rawEvents makes the body of an append whose payloads are exactly these.
func rawEvents(payloads []string) string {
	var body strings.Builder
	body.WriteString(`{"events":[`)
	for i, payload := range payloads {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"kind":"opaque","client_event_id":"%d","payload":%s}`, i, payload)
	}
	body.WriteString(`]}`)
	return body.String()
}

func requirePayloads(t *trial, want []string, events []wire.Event, exact bool) {
	require.Len(t, events, len(want))
	for i, event := range events {
		if exact {
			require.Equal(t, want[i], string(event.Payload), "payload %d", i)
			continue
		}
		require.Equal(t, compact(t, []byte(want[i])), compact(t, event.Payload), "payload %d", i)
	}
}

func casePayloadRead(t *trial, exact bool) {
	payloads := opaquePayloads()
	if exact {
		payloads = append(payloads, spacedPayloads()...)
	}
	r := t.room().executed()
	var live *feed
	if exact {
		live = openWebSocket(r.owner, r, "").live()
	}
	r.owner.post(r.path("/events"), rawEvents(payloads)).want(200)
	requirePayloads(t, payloads, r.events(""), exact)
	if exact {
		requirePayloads(t, payloads, live.events(len(payloads)), true)
	}
}

func casePayloadStream(t *trial, o opener) {
	payloads := append(opaquePayloads(), spacedPayloads()[0], spacedPayloads()[2])
	r := t.room().executed()
	live := o.open(r.owner, r, "").live()
	r.owner.post(r.path("/events"), rawEvents(payloads)).want(200)
	requirePayloads(t, payloads, live.events(len(payloads)), false)
	replayed := o.open(r.owner, r, "?after=0")
	requirePayloads(t, payloads, replayed.events(len(payloads)), false)
}

func casePayloadUp(t *trial) {
	payloads := opaquePayloads()
	r := t.room().executed()
	socket := openWebSocket(r.owner, r, "").live()
	body := rawEvents(payloads)
	socket.send(`{"t":"events","ref":"r1",` + strings.TrimPrefix(body, "{"))
	ack := socket.next(wire.FrameAck)
	require.JSONEq(t, fmt.Sprint(len(payloads)), string(member(t, ack.data, "accepted")))
	requirePayloads(t, payloads, r.events(""), false)
}

func casePayloadMalformed(t *trial) {
	r := t.room().executed()
	for _, payload := range []string{
		`[]`, `"text"`, `7`, `true`, `{"a":01}`, `{"a":.5}`, `{"a":+1}`, `{"a":NaN}`, `{"a":'x'}`, `{"a":}`, `{"a" 1}`, `{,}`, `{"a":1,}`,
		`{"a":"\x41"}`, `{"a":"\u12"}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", "{\"\xc0\x80\":1}", "{\"a\":\"\xed\xa0\x80\"}", `{"a":tru}`, `{"a":1}}`, `{`,
	} {
		r.owner.post(r.path("/events"), `{"events":[{"kind":"x","payload":`+payload+`}]}`).bad()
	}
	require.Empty(t, r.events(""))
}

func casePayloadTooDeep(t *trial) {
	r := t.room().executed()
	for _, depth := range []int{wire.MaxDepth + 1, 10 * wire.MaxDepth, 100_000} {
		payload := `{"deep":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
		a := r.owner.post(r.path("/events"), rawEvents([]string{payload}))
		require.Contains(t, []int{200, 400}, a.status, "depth %d: %s", depth, a)
		if a.status == 400 {
			a.bad()
		}
	}
	r.owner.get(r.path("/events")).want(200)
}

func caseForbiddenText(t *trial) {
	r := t.room().executed()
	for _, bad := range []string{`\u0000`, `a\u0000b`, `\ud800`, `\udc00\ud800`, `x\ud834y`} {
		text := `"` + bad + `"`
		r.owner.post("/v1/sessions", `{"session_key":`+text+`}`).bad("session_key")
		r.owner.post("/v1/sessions", `{"title":`+text+`}`).bad("title")
		r.owner.patch(r.path(""), `{"title":`+text+`}`).bad("title")
		for _, field := range []string{"kind", "turn_id", "client_event_id"} {
			other := `"kind":"x",`
			if field == "kind" {
				other = ""
			}
			r.owner.post(r.path("/events"), `{"events":[{`+other+`"`+field+`":`+text+`}]}`).bad()
		}
		r.owner.post(r.path("/control"), `{"kind":"send","id":`+text+`}`).bad("id")
		for _, field := range []string{"text", "turn_id", "ask_id"} {
			r.owner.post(r.path("/control"), `{"id":"x","kind":"send","`+field+`":`+text+`}`).bad(field)
		}
		r.owner.post(r.path("/dispatch"), fmt.Sprintf(`{"device_id":%q,"text":%s}`, r.owner.device, text)).bad("text")
		r.owner.post("/v1/orgs", `{"name":`+text+`}`).bad("name")
	}
	require.Empty(t, r.events(""))
	encoded, err := json.Marshal(object{"title": "a surrogate pair is text: \U0001D11E"})
	require.NoError(t, err)
	r.owner.patch(r.path(""), string(encoded)).want(200)
	r.owner.patch(r.path(""), `{"title":"\ud834\udd1e"}`).want(200)
	require.Equal(t, "\U0001D11E", *r.detail(r.owner).Title)
}
