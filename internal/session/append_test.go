package session

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestPlanAppend(t *testing.T) {
	t.Parallel()
	t.Run("SS-EVT-2 numbers are dense and every element has its place", rapid.MakeCheck(func(t *rapid.T) {
		last := rapid.Int64Range(0, 1000).Draw(t, "last")
		ids := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c", "d"}), 1, 30).Draw(t, "ids")
		known := map[string]int64{}
		for _, id := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "known") {
			if last > 0 {
				known[id] = rapid.Int64Range(1, last).Draw(t, "seq")
			}
		}
		before := maps.Clone(known)
		batch := make([]wire.IncomingEvent, len(ids))
		for i, id := range ids {
			batch[i] = wire.IncomingEvent{Kind: "k"}
			if id != "" {
				batch[i].ClientEventID = &id
			}
		}
		fresh, receipt := planAppend(last, batch, known)
		if len(receipt.Events) != len(batch) || receipt.Accepted != len(fresh) || receipt.LastSeq != last+int64(len(fresh)) {
			t.Fatalf("%+v", receipt)
		}
		for i, event := range fresh {
			if event.Seq != last+int64(i)+1 {
				t.Fatalf("hole at %d", event.Seq)
			}
		}
		first := map[string]int64{}
		for i, id := range ids {
			seq := receipt.Events[i].Seq
			switch {
			case id == "":
			case before[id] != 0 && seq != before[id]:
				t.Fatalf("%s was %d, is %d", id, before[id], seq)
			case first[id] != 0 && seq != first[id]:
				t.Fatalf("%s has two places", id)
			default:
				first[id] = seq
			}
		}
	}))

	t.Run("SS-EVT-2 elements without an id are never duplicates", func(t *testing.T) {
		t.Parallel()
		fresh, receipt := planAppend(4, []wire.IncomingEvent{{Kind: "a"}, {Kind: "a"}}, map[string]int64{})
		require.Len(t, fresh, 2)
		require.Equal(t, 2, receipt.Accepted)
	})
}

func TestAppendEvent(t *testing.T) {
	t.Parallel()
	t.Run("SS-OBJ-1 a payload goes out as it came", func(t *testing.T) {
		t.Parallel()
		for _, payload := range []string{
			`{}`, `{"n":9007199254740993,"z":-0,"e":1e400}`, `{"a":1,"a":2}`, `{"s":"\u0000\ud800"}`, "{ \"b\" :\r\n[1,\t2] }", `{"ü":"<&>"}`,
		} {
			id, turn := "c\"1", "t\u2028<"
			event := Stored{Event: wire.Event{
				Seq: 7, Kind: "k\n", TS: -5, SenderDeviceID: "d", TurnID: &turn, ClientEventID: &id, Payload: json.RawMessage(payload),
			}}
			encoded := AppendEvent(nil, &event)
			require.Contains(t, string(encoded), payload)
			var back wire.Event
			require.NoError(t, json.Unmarshal(encoded, &back))
			require.Equal(t, event.Event, back)
		}
	})
	t.Run("SS-OBJ-1 what has no value is null", func(t *testing.T) {
		t.Parallel()
		event := Stored{Event: wire.Event{Seq: 1, Kind: "k", SenderDeviceID: "d", Payload: json.RawMessage(`{}`)}}
		require.JSONEq(t, `{"seq":1,"kind":"k","ts":0,"sender_device_id":"d","turn_id":null,"client_event_id":null,"payload":{}}`,
			string(AppendEvent(nil, &event)))
	})
}

func TestStrongest(t *testing.T) {
	t.Parallel()
	t.Run("SS-ROLE-1 the highest role counts, until the first of the shares ends", func(t *testing.T) {
		t.Parallel()
		sooner, later := noon, noon.Add(LeaseTTL)
		role, until := strongest([]grant{{wire.RoleViewer, nil}, {wire.RoleOwner, &later}, {wire.RoleEditor, &sooner}})
		require.Equal(t, wire.RoleOwner, role)
		require.Equal(t, &sooner, until)
		role, until = strongest(nil)
		require.Equal(t, wire.RoleNone, role)
		require.Nil(t, until)
	})
}
