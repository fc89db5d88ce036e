package storage

import (
	"context"
	"fmt"
)

// Ready reports whether db answers and still has the schema this program knows; nil is yes.
func Ready(ctx context.Context, db DB) error {
	latest, err := latestVersion()
	if err != nil {
		return err
	}
	current, err := Read(ctx, db, func(tx Tx) (int64, error) {
		var version int64
		_, err := tx.Get(`SELECT max(version_id) FROM `+schemaTable, nil, &version)
		return version, err
	})
	if err != nil {
		return err
	}
	if current != latest {
		return fmt.Errorf("schema has version %d, this program knows %d", current, latest)
	}
	return nil
}
