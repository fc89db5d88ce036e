package authz_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
)

// BenchmarkLoad reads the snapshot that every write asks for, among 2 000 principals with five grants each, half of
// them by groups.
func BenchmarkLoad(b *testing.B) {
	for _, engine := range testkit.Engines() {
		b.Run(engine, func(b *testing.B) {
			db := testkit.Open(b, storage.Options{URL: testkit.NewURL(b, engine)})
			const people = 2000
			require.NoError(b, db.Write(b.Context(), nil, crowd(people)))
			require.NoError(b, db.Write(b.Context(), nil, func(tx storage.Tx) error { return tx.Exec("ANALYZE") }))
			b.ResetTimer()
			for i := range b.N {
				require.NoError(b, db.Read(b.Context(), func(tx storage.Tx) error {
					_, found, err := authz.Load(tx, fmt.Sprintf("p%d", i%people))
					require.True(b, found)
					return err
				}))
			}
		})
	}
}

func crowd(people int) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		if err := tx.Exec(`INSERT INTO spaces (id, name, created_at) VALUES ('s', 's', 1)`); err != nil {
			return err
		}
		for i := range 200 {
			if err := tx.Exec(`INSERT INTO channels (id, space_id, kind, name, created_at) VALUES ($1, 's', 'text', 'c', 1)`, fmt.Sprint("c", i)); err != nil {
				return err
			}
			if err := tx.Exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, $1, 1)`, fmt.Sprint("g", i)); err != nil {
				return err
			}
			if err := grantTo(tx, "group", fmt.Sprint("g", i), fmt.Sprint("c", i)); err != nil {
				return err
			}
		}
		for i := range people {
			id := fmt.Sprint("p", i)
			if err := tx.Exec(`INSERT INTO principals (id, kind, handle, display_name, status, created_at) VALUES ($1, 'user', $1, 'x', 'active', 1)`, id); err != nil {
				return err
			}
			for n := range 3 {
				if err := grantTo(tx, "principal", id, fmt.Sprint("c", (i+7*n)%200)); err != nil {
					return err
				}
				if err := tx.Exec(`INSERT INTO group_members (group_id, principal_id) VALUES ($1, $2)`, fmt.Sprint("g", (i+11*n)%200), id); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func grantTo(tx storage.Tx, kind, subject, channel string) error {
	return tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at) VALUES ($1, $2, $3, 'channel', $4, 'write', 1)`,
		subject+channel, kind, subject, channel)
}
