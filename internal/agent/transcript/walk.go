package transcript

import (
	"errors"
	"fmt"
	"hash/fnv"
	"iter"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// maxStrangers bounds how many events of the log that are not the file's next ones are remembered, as eight bytes each.
const maxStrangers = 4 << 20

// errStrangers is a log with too many events that are not of the file.
var errStrangers = errors.New("the session has too many events that are not of this file")

// walk goes through a log beside a file, to know which of the file's events are there already.
//
// What an import stored stands in the log in the order of the file, with events of others in between. So the walk
// looks for the file's next event from where it stands in the log. What it passes it remembers, because a file may
// tell things in another order than when it was imported first (a newer version of this program, a transcript that
// was rewritten): then the whole log has been passed, and what is remembered decides.
type walk struct {
	next   func() (wire.Event, error, bool)
	stop   func()
	passed map[uint64]uint32
	done   bool
}

func newWalk(log iter.Seq2[wire.Event, error]) *walk {
	next, stop := iter.Pull2(log)
	return &walk{next: next, stop: stop, passed: map[uint64]uint32{}}
}

// close lets go of the log.
func (w *walk) close() { w.stop() }

// knows reports whether the log has the event with this id.
func (w *walk) knows(id string) (bool, error) {
	key := digest(id)
	if w.passed[key] > 0 {
		if w.passed[key]--; w.passed[key] == 0 {
			delete(w.passed, key)
		}
		return true, nil
	}
	for !w.done {
		event, err, more := w.next()
		switch {
		case !more:
			w.done = true
		case err != nil:
			return false, fmt.Errorf("read the log: %w", err)
		case event.ClientEventID == nil:
		case *event.ClientEventID == id:
			return true, nil
		case len(w.passed) >= maxStrangers:
			return false, errStrangers
		default:
			w.passed[digest(*event.ClientEventID)]++
		}
	}
	return false, nil
}

func digest(id string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id)) // never fails
	return hash.Sum64()
}
