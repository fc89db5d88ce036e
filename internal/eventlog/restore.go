package eventlog

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
)

// NewTimeline gives the log a new epoch: after a restore its numbers go on from an older state, so that what clients
// know of later numbers is void (ES-7.5). Consumers inside the server go on from the head, and nothing of the old
// timeline is caught up. It answers where the log stands. Servers must be stopped: they know the epoch.
func NewTimeline(tx storage.Tx, epoch string) (State, error) {
	if err := tx.Exec(`UPDATE instance SET sync_epoch = $1`, epoch); err != nil {
		return State{}, fmt.Errorf("set epoch: %w", err)
	}
	state, err := StateOf(tx)
	if err != nil {
		return State{}, err
	}
	if err := tx.Exec(`UPDATE event_consumer_cursors SET last_seq = $1`, state.Head); err != nil {
		return State{}, fmt.Errorf("move consumers to the head: %w", err)
	}
	return state, nil
}
