package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// changeWith makes a permission change that emits an event in front of access.changed: both are delivered in one go.
func (n *node) changeWith(affected string, event eventlog.Event, change func(tx storage.Tx) error) {
	n.w.t.Helper()
	err := authz.New(n.db, n.log, n.w.env).Change(n.w.t.Context(), authz.Plan{
		Affected: func(storage.Tx) ([]string, error) { return []string{affected}, nil },
		Change: func(tx storage.Tx) error {
			if err := n.log.Emit(tx, event); err != nil {
				return err
			}
			return change(tx)
		},
	})
	require.NoError(n.w.t, err)
}

// A connection that was given an event and is ended within the same delivery.
func TestEndedWithinADelivery(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		anna, bert := w.person("anna"), w.person("bert")
		channel := w.channel()
		n.grant(anna, channel, wire.LevelRead)
		n.settled()
		t.Run("ES-8.5 the account is disabled", func(t *testing.T) {
			c := n.connect(w.device(anna))
			n.changeWith(anna, setting(anna, "x"), func(tx storage.Tx) error {
				return tx.Exec(`UPDATE principals SET status = 'disabled' WHERE id = $1`, anna)
			})
			c.requireClosed(code.CloseRevoked)
		})
		t.Run("ES-8.3 the new permissions cannot be read", func(t *testing.T) {
			c := n.connect(w.device(bert))
			n.db.down.Store(true)
			n.changeWith(bert, setting(bert, "x"), func(tx storage.Tx) error {
				return tx.Exec(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
					VALUES ($1, 'principal', $1, 'channel', $2, 'read', 1)`, bert, channel)
			})
			c.requireClosed(code.CloseUnknownError)
			n.db.down.Store(false)
		})
		n.settled()
		c := n.connect(w.device(w.owner))
		n.emit(setting(w.owner, "after"))
		c.event(eventlog.SettingsUpdated)
	})
}

// renamed is principal.updated.
func renamed(id, handle string) eventlog.Event {
	return eventlog.Event{Type: eventlog.PrincipalUpdated, ResourceID: id, ResourceVersion: 2, Payload: wire.PrincipalEvent{Principal: wire.Principal{
		ID: id, Kind: wire.KindUser, Handle: handle, DisplayName: handle, Status: wire.StatusActive, Version: 2,
	}}}
}

// Who receives an event about a principal depends on what that one sees.
func TestEventsAboutPrincipals(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		n := w.node()
		anna, bert, carl := w.person("anna"), w.person("bert"), w.person("carl")
		channel := w.channel()
		n.grant(anna, channel, wire.LevelRead)
		n.grant(bert, channel, wire.LevelRead)
		start := n.settled()
		n.emit(renamed(bert, "bert2"), renamed(carl, "carl2"))
		n.settled()
		t.Run("ES-7.2 one that passed while nobody was connected", func(t *testing.T) {
			c := n.connect(w.device(anna), start)
			require.Equal(t, bert, c.event(eventlog.PrincipalUpdated).Resource.ID)
			got, _ := c.caughtUp(start+1, 1)
			require.Empty(t, got)
		})
		t.Run("ES-7.2 about somebody who shares a channel only since", func(t *testing.T) {
			n.grant(carl, channel, wire.LevelRead)
			n.settled()
			c := n.connect(w.device(anna), start)
			require.Equal(t, bert, c.event(eventlog.PrincipalUpdated).Resource.ID)
			require.Equal(t, carl, c.event(eventlog.PrincipalUpdated).Resource.ID)
		})
		t.Run("ES-10 one whose receivers cannot be read", func(t *testing.T) {
			d := w.device(anna)
			c := n.connect(d)
			head := n.settled()
			n.db.down.Store(true)
			n.emit(renamed(bert, "bert3"))
			c.requireClosed(code.CloseUnknownError)
			n.db.down.Store(false)
			again := n.resume(d, c.ready.GatewaySessionID, head)
			again.expect(wire.OpResumed)
			require.Equal(t, bert, again.event(eventlog.PrincipalUpdated).Resource.ID)
		})
	})
}
