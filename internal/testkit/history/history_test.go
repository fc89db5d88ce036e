package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func text(s string) *string { return &s }

func known(code, holder string) Outcome { return Outcome{Known: true, Code: code, Holder: holder} }

// sound is a short history without fault: a claims and appends, b takes the lease by force and
// appends, one control is sent and applied. Tests break it.
func sound() *History {
	sent := func(id string) wire.IncomingEvent {
		return wire.IncomingEvent{Kind: "assistant", ClientEventID: text(id), Payload: json.RawMessage(`{"id":"` + id + `"}`)}
	}
	event := func(seq int64, device, id string) wire.Event {
		s := sent(id)
		return wire.Event{Seq: seq, Kind: s.Kind, SenderDeviceID: device, ClientEventID: s.ClientEventID, Payload: s.Payload}
	}
	control := wire.Control{ID: "c", Kind: wire.ControlPause, Seq: 4}
	echo, _ := json.Marshal(map[string]any{"control": control, "applied": false})
	h := &History{
		ForceOnly: true,
		Sent:      map[string]wire.IncomingEvent{"a/1": sent("1"), "a/2": sent("2"), "b/1": sent("1")},
		Controls:  map[string]wire.IncomingControl{"c": {ID: "c", Kind: wire.ControlPause}},
		Log: []wire.Event{
			event(1, "a", "1"), event(2, "a", "2"),
			{Seq: 3, Kind: wire.KindLeaseTransferred, SenderDeviceID: "b", Payload: json.RawMessage(`{"from_device_id":"a","to_device_id":"b","forced":true}`)},
			{Seq: 4, Kind: wire.KindControl, SenderDeviceID: "e", ClientEventID: text("control:c"), Payload: echo},
			event(5, "b", "1"),
		},
		Final: []wire.Control{{ID: "c", Kind: wire.ControlPause, Seq: 4, Applied: true}},
		Ops: []Op{
			{Kind: Claim, Device: "a", Call: 1, Return: 2, Outcome: known("", "")},
			{Kind: Append, Device: "a", IDs: []string{"1", "2"}, Call: 3, Return: 4, Outcome: Outcome{Known: true, LastSeq: 2, Accepted: 2, Seqs: []int64{1, 2}}},
			{Kind: Claim, Device: "b", Call: 5, Return: 6, Outcome: known("lease_held", "a")},
			{Kind: Claim, Device: "b", Force: true, Call: 7, Return: Never},
			{Kind: Control, Device: "e", ID: "c", Call: 8, Return: 9, Outcome: Outcome{Known: true, Seq: 4}},
			{Kind: Renew, Device: "a", Call: 10, Return: 11, Outcome: known("lease_held", "b")},
			{Kind: Append, Device: "b", IDs: []string{"1"}, Call: 12, Return: 13, Outcome: Outcome{Known: true, LastSeq: 5, Accepted: 1, Seqs: []int64{5}}},
			{Kind: Applied, Device: "b", ID: "c", Call: 14, Return: 15, Outcome: known("", "")},
			{Kind: Read, Device: "a", Call: 16, Return: 17, Outcome: Outcome{Known: true, Holder: "b", LastSeq: 5}},
		},
	}
	h.Views = []*View{{Name: "viewer", Events: slices.Clone(h.Log), Applied: map[string]bool{"c": true}}}
	return h
}

func TestASoundHistoryHasNoProblems(t *testing.T) {
	t.Parallel()
	require.Empty(t, sound().Problems())
}

// A check that cannot fail proves nothing: every fault here must be found, and named.
func TestEveryFaultIsFound(t *testing.T) {
	t.Parallel()
	const notLinear = "SS-LEASE-2"
	for name, fault := range map[string]struct {
		breaks func(*History)
		found  string
	}{
		"a hole in seq":                     {func(h *History) { h.Log[4].Seq = 6 }, "SS-EVT-2: seq 6"},
		"an event twice":                    {func(h *History) { h.Log[1] = h.Log[0]; h.Log[1].Seq = 2 }, "stored twice"},
		"an acknowledged event lost":        {func(h *History) { h.Log = h.Log[:4] }, "was acknowledged at 5"},
		"an event nobody sent":              {func(h *History) { delete(h.Sent, "b/1") }, "never sent"},
		"a payload changed":                 {func(h *History) { h.Log[0].Payload = json.RawMessage(`{}`) }, "SS-OBJ-1"},
		"an acknowledged control elsewhere": {func(h *History) { h.Ops[4].Seq = 3 }, "SS-CTL-1"},
		"a control without a row":           {func(h *History) { h.Final = nil }, "SS-CTL-2"},
		"a control applied by nobody":       {func(h *History) { h.Ops = slices.Delete(h.Ops, 7, 8) }, "SS-CTL-5"},
		"an applied control lost":           {func(h *History) { h.Final[0].Applied = false }, "SS-CTL-5"},
		"the old holder appends on":         {func(h *History) { h.Log[4].SenderDeviceID = "a" }, "SS-LEASE-6"},
		"a takeover from somebody else": {func(h *History) {
			h.Log[2].Payload = json.RawMessage(`{"from_device_id":"x","to_device_id":"b","forced":true}`)
		}, "SS-LEASE-3"},
		"a viewer misses an event":       {func(h *History) { h.Views[0].Events = h.Views[0].Events[1:] }, "SS-STR-2"},
		"a viewer has another event":     {func(h *History) { h.Views[0].Events[0].Payload = json.RawMessage(`{"id": "1"}`) }, "SS-STR-2"},
		"a viewer had trouble":           {func(h *History) { h.Views[0].Trouble = []string{"seq 3 after 1"} }, "SS-STR-2"},
		"two hold the lease":             {func(h *History) { h.Ops[2].Outcome = known("", "") }, notLinear},
		"a refusal names nobody":         {func(h *History) { h.Ops[2].Outcome = known("lease_held", "x") }, notLinear},
		"the loser renews":               {func(h *History) { h.Ops[5].Outcome = known("", "") }, notLinear},
		"a stale read":                   {func(h *History) { h.Ops[8].LastSeq = 4 }, notLinear},
		"a read of the old holder":       {func(h *History) { h.Ops[8].Holder = "a" }, notLinear},
		"a takeover without its request": {func(h *History) { h.Ops = slices.Delete(h.Ops, 3, 4) }, notLinear},
		"a condition that did not hold":  {func(h *History) { h.Ops[6].Expected = new(int64) }, notLinear},
		"a lease that ran out early":     {func(h *History) { h.Ops[5].Holder = "" }, notLinear},
		"a new event called a duplicate": {func(h *History) { h.Ops[6].Accepted = 0 }, notLinear},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := sound()
			fault.breaks(h)
			problems := strings.Join(h.Problems(), "\n")
			require.Contains(t, problems, fault.found)
		})
	}
}

// A lease may run out only when its whole term has passed.
func TestTerms(t *testing.T) {
	t.Parallel()
	for after, fits := range map[time.Duration]bool{29 * time.Second: false, 31 * time.Second: true} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			late := after.Nanoseconds()
			h := &History{Ops: []Op{
				{Kind: Claim, Device: "a", Call: 1, Return: 2, Outcome: known("", "")},
				{Kind: Claim, Device: "b", Call: late, Return: late + 1, Outcome: known("", "")},
			}}
			require.Equal(t, fits, len(h.Problems()) == 0)
		})
	}
}
