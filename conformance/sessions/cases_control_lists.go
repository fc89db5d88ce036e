package sessions

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func controlListCases() []testCase {
	return []testCase{
		{rule: "SS-CTL-4", name: "pending only by default, oldest first, for any viewer", run: caseControlList},
		{rule: "SS-CTL-4", name: "target is me or a device", run: caseControlTarget},
		{rule: "SS-CTL-4", name: "500 at most", run: func(t *trial) { caseManyControls(t, false) }},
		{rule: "SS-CTL-4", name: "after pages past 500, applied=all lists both", ours: true, run: func(t *trial) { caseManyControls(t, true) }},
	}
}

func caseControlList(t *trial) {
	r := t.room().executed()
	var all []string
	for range 4 {
		id, _ := r.control(r.owner, wire.ControlSend)
		all = append(all, id)
	}
	r.applied(r.owner, all[1]).want(200)
	pending := []string{all[0], all[2], all[3]}
	for query, want := range map[string][]string{
		"": pending, "?applied=false": pending, "?applied=0": pending, "?applied=true": {all[1]}, "?applied=1": {all[1]},
	} {
		require.Equal(t, want, ids(r.controls(query)), "controls%s", query)
	}
	viewer := r.viewer()
	a := viewer.get(r.path("/controls")).want(200).has("controls")
	require.Len(t, list(t, a.body, "controls"), 3)
	require.Len(t, list(t, viewer.on("").get(r.path("/controls")).want(200).body, "controls"), 3)
}

func caseControlTarget(t *trial) {
	r := t.room()
	target := r.owner.anotherDevice()
	target.get("/v1/sessions").want(200)
	r.control(r.owner, wire.ControlSend)
	aimed := r.dispatched(r.owner, target.device, nil)
	require.Len(t, r.controls(""), 2)
	require.Equal(t, []string{aimed}, ids(r.controls("?target="+target.device)))
	require.Empty(t, r.controls("?target="+newID()))
	require.Empty(t, r.controls("?target=me"))
	a := target.get(r.path("/controls?applied=false&target=me")).want(200)
	require.Len(t, list(t, a.body, "controls"), 1)
	r.owner.on("").get(r.path("/controls?target=me")).refused(code.BadRequest)
	for _, odd := range []string{"you", "1", "me2", target.device[:30]} {
		r.owner.get(r.path("/controls?target=" + odd)).refused(code.BadRequest)
	}
}

func caseManyControls(t *trial, ours bool) {
	r := t.room()
	const many = 505
	socket := openWebSocket(r.owner, r, "").live()
	for i := range many {
		socket.send(object{"t": "control", "ref": "last", "id": fmt.Sprintf("c%03d", i), "kind": "steer"})
	}
	for range many {
		socket.next(wire.FrameAck)
	}
	first := r.controls("")
	require.Len(t, first, 500)
	require.True(t, slices.IsSortedFunc(first, func(a, b wire.Control) int { return int(a.Seq - b.Seq) }), "oldest first")
	require.EqualValues(t, 1, first[0].Seq)
	if !ours {
		return
	}
	rest := r.controls(fmt.Sprintf("?after=%d", first[499].Seq))
	require.Len(t, rest, 5)
	require.EqualValues(t, 501, rest[0].Seq)
	r.executed().applied(r.owner, "c000").want(200)
	require.Equal(t, []string{"c000"}, ids(r.controls("?applied=true")))
	require.Equal(t, "c000", r.controls("?applied=all")[0].ID)
	require.Len(t, r.controls("?applied=all&after=500"), 5)
}
