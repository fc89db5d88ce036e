// Package place answers where threads of the Workspace surface are, for authz: small reads that the
// subpackages of workspace share.
//
// Contract. Each function reads in the caller's transaction and answers found = false for an id that names
// nothing; ids must be canonical. Paging and forms of input stand here too, so that every list and every
// refusal of the subpackages reads alike.
//
// Blocking and concurrency. The package has no state.
package place

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Thread is a thread as far as personal data needs it.
type Thread struct {
	authz.Place

	ID             string
	LastMessageSeq int64
	UnreadFloorSeq int64
}

// Scope is where the thread is, as events name it.
func (t *Thread) Scope() wire.Scope {
	return wire.Scope{SpaceID: t.SpaceID, ChannelID: t.ChannelID, ThreadID: t.ID}
}

// OfThread answers a thread with its place.
func OfThread(tx storage.Tx, id string) (t Thread, found bool, err error) {
	found, err = tx.Get(
		`SELECT t.id, t.last_message_seq, t.unread_floor_seq, c.id, c.space_id, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL
		   FROM threads t JOIN channels c ON c.id = t.channel_id JOIN spaces s ON s.id = c.space_id WHERE t.id = $1`,
		[]any{id}, &t.ID, &t.LastMessageSeq, &t.UnreadFloorSeq, &t.ChannelID, &t.SpaceID, &t.Archived, &t.ReadOnly, &t.SpaceArchived)
	if err != nil {
		return t, false, fmt.Errorf("read place of a thread: %w", err)
	}
	return t, found, nil
}

// Visible narrows a query to the channels a snapshot sees; Args fill its three parameters, of which the
// first has the number from.
func Visible(channel string, from int) string {
	return fmt.Sprintf("($%d OR %s.space_id = ANY($%d) OR %s.id = ANY($%d))", from, channel, from+1, channel, from+2)
}

// VisibleArgs are the arguments of Visible for a snapshot.
func VisibleArgs(tx storage.Tx, s *authz.Snapshot) []any {
	now := tx.Now()
	return []any{s.SeesEverything(now), s.GrantedSpaces(now), s.GrantedChannels(now)}
}
