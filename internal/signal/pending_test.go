package signal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// covers reports whether one of wakes says at least as much as wanted.
func covers(wakes []Wake, wanted Wake) bool {
	for _, wake := range wakes {
		if wake == wanted || wake == (Wake{Topic: wanted.Topic}) || wake == (Wake{}) {
			return true
		}
	}
	return false
}

// anyWake draws wakes that are ordinary, and some that no payload can spell.
func anyWake() *rapid.Generator[Wake] {
	topic := rapid.OneOf(rapid.SampledFrom([]Topic{Session, Presence, Inbox, Identity, Push, ""}),
		rapid.Map(rapid.String(), func(text string) Topic { return Topic(text) }))
	id := rapid.OneOf(rapid.StringMatching(`[0-9a-f-]{36}`), rapid.Just(""), rapid.String(), rapid.Just(strings.Repeat("x", 500)))
	return rapid.Custom(func(t *rapid.T) Wake {
		wake := Wake{Topic: topic.Draw(t, "topic"), ID: id.Draw(t, "id")}
		if wake.Topic == "" {
			wake.ID = ""
		}
		return wake
	})
}

func TestNothingPublishedIsLostOnItsWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		published := rapid.SliceOfN(anyWake(), 1, 300).Draw(t, "published")
		var waiting pending
		for _, wake := range published {
			waiting.add(wake)
		}
		var heard []Wake
		for _, payload := range encodePayloads("node-1", waiting.drain()) {
			if len(payload) > maxPayload {
				t.Fatalf("a payload of %d bytes", len(payload))
			}
			node, wakes := decodePayload(payload)
			if node != "node-1" {
				t.Fatalf("sent by %q", node)
			}
			heard = append(heard, wakes...)
		}
		for _, wake := range published {
			if !covers(heard, wake) {
				t.Fatalf("%q is not covered by %q", wake, heard)
			}
		}
		if left := waiting.drain(); len(left) != 0 {
			t.Fatalf("left after drain: %q", left)
		}
	})
}

func TestOrdinaryWakesTravelPrecisely(t *testing.T) {
	t.Parallel()
	const id = "0190f0a0-0000-7000-8000-000000000001"
	sent := []Wake{{Session, id}, {Session, "other"}, {Inbox, id}, {Identity, ""}}
	payloads := encodePayloads("n", sent)
	require.Len(t, payloads, 1)
	_, heard := decodePayload(payloads[0])
	require.ElementsMatch(t, sent, heard)
}

func TestAFullSetCollapsesIntoTopics(t *testing.T) {
	t.Parallel()
	var waiting pending
	for i := range maxPending {
		waiting.add(Wake{Session, fmt.Sprint(i)})
	}
	require.Len(t, waiting.ids, maxPending)
	waiting.add(Wake{Inbox, "one more"})
	waiting.add(Wake{Session, "known by no other"})
	require.ElementsMatch(t, []Wake{{Inbox, ""}, {Session, ""}}, waiting.drain())
}

func TestTooManyTopicsCollapseIntoAnything(t *testing.T) {
	t.Parallel()
	var waiting pending
	for i := range maxTopics + 1 {
		waiting.add(Wake{Topic: Topic(fmt.Sprint("t", i))})
	}
	require.Equal(t, []Wake{{}}, waiting.drain())
}

func FuzzDecodePayload(f *testing.F) {
	f.Add("node s=a,b u=* *=*")
	f.Add("")
	f.Add("node")
	f.Add("node s= =a ,")
	f.Fuzz(func(t *testing.T, payload string) {
		_, wakes := decodePayload(payload)
		require.NotEmpty(t, wakes, "a payload always wakes something")
		for _, wake := range wakes {
			require.False(t, wake.Topic == "" && wake.ID != "", "no topic, but an id")
		}
	})
}
