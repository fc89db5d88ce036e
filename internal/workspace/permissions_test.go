package workspace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// What is remembered of permissions ends with its grants, although their version stays.
func TestRememberedPermissionsEnd(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		channel := w.text()
		soon := func() time.Time {
			now, err := storage.Read(w.Context(), w.db, func(tx storage.Tx) (time.Time, error) { return tx.Now(), nil })
			require.NoError(w, err)
			return now.Add(500 * time.Millisecond)
		}
		granted := w.member("granted", onChannel(channel.ID), wire.LevelWrite)
		w.change(`UPDATE grants SET expires_at = $2 WHERE subject_id = $1`, granted.Principal, soon())
		member, group := w.person("member"), w.env.NewID()
		w.exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, 'crew', 1)`, group)
		w.change(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at) VALUES ($1, 'group', $1, 'channel', $2, 'write', 1)`,
			group, channel.ID)
		w.change(`INSERT INTO group_members (group_id, principal_id, expires_at) VALUES ($1, $2, $3)`, group, member.Principal, soon())
		expiring := map[string]authz.Caller{"a grant": granted, "a membership": member}
		for what, by := range expiring {
			ended := func() bool {
				_, _, err := w.CreateMessage(w.Context(), by, channel.MainThreadID, w.message("on"))
				return fault.Is(err, code.NotFound)
			}
			require.Eventually(w, ended, patience, 20*time.Millisecond, what)
		}
	})
}

func TestPermissionsAreOfTheirVersion(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		channel := w.text()
		by := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		w.say(by, channel.MainThreadID, "one")
		w.change(`UPDATE grants SET level = 'read' WHERE subject_id = $1`, by.Principal)
		_, _, err := w.CreateMessage(w.Context(), by, channel.MainThreadID, w.message("two"))
		w.refused(code.Forbidden, err)
		w.change(`UPDATE principals SET status = 'disabled' WHERE id = $1`, by.Principal)
		_, _, err = w.CreateMessage(w.Context(), by, channel.MainThreadID, w.message("three"))
		w.refused(code.InvalidToken, err)
		nobody := authz.Caller{Principal: w.env.NewID(), Kind: wire.KindUser}
		_, _, err = w.CreateMessage(w.Context(), nobody, channel.MainThreadID, w.message("four"))
		w.refused(code.InvalidToken, err)
	})
}

// What the server does by itself belongs to nobody, so it writes nothing that belongs to somebody.
func TestSystemWritesNoMessages(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, system := w.Context(), authz.System()
		channel := w.text()
		m := w.say(w.owner, channel.MainThreadID, "theirs")
		_, _, err := w.StartThread(ctx, system, channel.ID, wire.NewThread{Title: "t", ClientMsgID: w.env.NewID(), ContentMD: "x"})
		w.refused(code.NotImplementedForKind, err)
		_, err = w.EditMessage(ctx, system, m.ID, version(1), wire.EditMessage{ContentMD: "x"})
		w.refused(code.NotImplementedForKind, err)
		w.refused(code.NotImplementedForKind, w.AddReaction(ctx, system, m.ID, "👍"))
		require.NoError(w, w.DeleteMessage(ctx, system, m.ID))
		_, err = w.ArchiveChannel(ctx, system, channel.ID, nil)
		require.NoError(w, err)
	})
}
