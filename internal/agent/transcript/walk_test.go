package transcript

import (
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// logOf is a log of events with these ids; "" is one without.
func logOf(ids []string, end error) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		for i, id := range ids {
			event := wire.Event{Seq: int64(i + 1)}
			if id != "" {
				event.ClientEventID = &id
			}
			if !yield(event, nil) {
				return
			}
		}
		if end != nil {
			yield(wire.Event{}, end)
		}
	}
}

func TestAWalkKnowsWhatTheLogHas(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		log, file []string
		fresh     []string
	}{
		"an empty log":                 {nil, []string{"a", "b"}, []string{"a", "b"}},
		"the whole file":               {[]string{"a", "b"}, []string{"a", "b"}, nil},
		"the file has grown":           {[]string{"a", "b"}, []string{"a", "b", "c"}, []string{"c"}},
		"others in between":            {[]string{"", "a", "control:1", "b", "x"}, []string{"a", "b", "c"}, []string{"c"}},
		"another order":                {[]string{"b", "a", "c"}, []string{"a", "b", "c", "d"}, []string{"d"}},
		"an event that was not there":  {[]string{"a", "c"}, []string{"a", "b", "c"}, []string{"b"}},
		"the end of an earlier import": {[]string{"a", "end:1", "b"}, []string{"a", "b", "end:2"}, []string{"end:2"}},
		"a log that is longer":         {[]string{"a", "b", "c"}, []string{"a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWalk(logOf(one.log, nil))
			defer w.close()
			var fresh []string
			for _, id := range one.file {
				known, err := w.knows(id)
				require.NoError(t, err)
				if !known {
					fresh = append(fresh, id)
				}
			}
			require.Equal(t, one.fresh, fresh)
		})
	}
}

func TestAWalkNeverSendsTwiceAndLeavesNothingOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfDistinct(rapid.IntRange(0, 30), rapid.ID[int]).Draw(t, "log")
		file := rapid.SliceOfDistinct(rapid.IntRange(0, 30), rapid.ID[int]).Draw(t, "file")
		there := map[int]bool{}
		var ids []string
		for _, id := range log {
			there[id] = true
			ids = append(ids, fmt.Sprint(id))
		}
		w := newWalk(logOf(ids, nil))
		defer w.close()
		for _, id := range file {
			known, err := w.knows(fmt.Sprint(id))
			require.NoError(t, err)
			require.Equal(t, there[id], known, "%d of %v in %v", id, file, log)
		}
	})
}

func TestAWalkDoesNotTakeALostLogForAnEmptyOne(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	w := newWalk(logOf([]string{"a"}, lost))
	defer w.close()
	_, err := w.knows("b")
	require.ErrorIs(t, err, lost)
}
