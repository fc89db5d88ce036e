package sessions

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func sealedCases() []testCase {
	return []testCase{
		{rule: "SS-E2E-1", name: "a sealed payload is opaque, its envelope is not", run: caseSealed},
		{rule: "SS-TRC-1", name: "the server interprets nothing of the trace vocabulary", run: caseVocabulary},
	}
}

func caseSealed(t *trial) {
	r := t.roomWith(object{"e2e": true}).executed()
	live := openSSE(r.viewer(), r, "").live()
	sealed := object{"hide": strings.Repeat("QUJD", 2000)}
	r.append(r.owner, object{"kind": "assistant", "ts": 7, "turn_id": "t", "payload": sealed}, object{"kind": "plain", "payload": object{"text": "allowed"}})
	for _, got := range [][]wire.Event{r.all(), live.events(2)} {
		require.Equal(t, "assistant", got[0].Kind)
		require.EqualValues(t, 7, got[0].TS)
		require.Equal(t, "t", value(got[0].TurnID))
		require.Equal(t, r.owner.device, got[0].SenderDeviceID)
		require.JSONEq(t, `{"hide":"`+sealed["hide"].(string)+`"}`, string(got[0].Payload))
	}
	r.control(r.owner, wire.ControlSend)
	require.True(t, r.detail(r.owner).E2E)
	require.True(t, r.in(r.owner.list("&limit=200")).E2E)
}

func caseVocabulary(t *trial) {
	r := t.room().executed()
	kinds := strings.Fields(`turn_start turn_end step_start req_start local_gen user assistant tool_start tool_call tool_result
		ask ask_resolved control_result wait_user screen_wait run_state todos usage deadline error control lease_transferred`)
	for _, kind := range kinds {
		r.append(r.owner, object{"kind": kind, "payload": object{"nonsense": kind, "status": 7, "items": "none"}})
	}
	for i, stored := range r.all() {
		require.Equal(t, kinds[i], stored.Kind)
		require.JSONEq(t, `{"nonsense":"`+kinds[i]+`","status":7,"items":"none"}`, string(stored.Payload))
	}
	require.Empty(t, r.controls(""), "an event of kind control is no control")
	require.True(t, slices.Contains(kinds, r.events("?limit=1")[0].Kind))
}
