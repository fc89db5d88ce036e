package identity

import (
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
)

// importedNearby reports whether a principal was made for an author of an import (ES-15.8) that made a
// channel the caller sees. Such a principal was given nothing, so nobody meets it by its levels; whoever reads
// its messages may know its name.
func importedNearby(tx storage.Tx, by authz.Caller, id string) (bool, error) {
	snapshot, found, err := authz.Load(tx, by.Principal)
	if err != nil || !found {
		return false, err
	}
	now := tx.Now()
	nearby, err := tx.Get(
		`SELECT 1 FROM principals p JOIN channels c ON c.import_id = p.import_id
		  WHERE p.id = $1 AND ($2 OR c.space_id = ANY($3) OR c.id = ANY($4)) LIMIT 1`,
		[]any{id, snapshot.SeesEverything(now), snapshot.GrantedSpaces(now), snapshot.GrantedChannels(now)}, new(int64))
	if err != nil {
		return false, fmt.Errorf("look for imports of an author: %w", err)
	}
	return nearby, nil
}
