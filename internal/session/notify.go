package session

import (
	"context"
	"slices"

	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// tell writes pushes to people down for what the executor has just stored. Without news it costs nothing.
func (s *Service) tell(tx storage.Tx, sess *record, fresh []wire.Event) error {
	event := newsAmong(fresh)
	if event == nil {
		return nil
	}
	due, err := outbound.EnqueueNews(tx, s.env, outbound.News{
		SessionID: sess.ID, Type: wire.PushType(event.Kind), Seq: event.Seq, SenderDeviceID: event.SenderDeviceID,
	})
	if due {
		tx.AfterCommit(func() { s.bus.Publish(signal.Wake{Topic: signal.Push}) })
	}
	return err
}

// newsAmong answers the one event of a batch that people are told of, nil for none: the newest, because the end of a turn closes what
// it asked.
func newsAmong(events []wire.Event) *wire.Event {
	for i := range slices.Backward(events) {
		if event := &events[i]; event.Kind == wire.KindAsk || event.Kind == wire.KindTurnEnd {
			return event
		}
	}
	return nil
}

// SetNotify chooses what the caller is pushed about in a session; for everybody who can see it. Pushes that wait
// are judged by it too.
func (s *Service) SetNotify(ctx context.Context, by Caller, ref string, notify wire.Notify) (wire.NotifySetting, error) {
	return write(ctx, s, by, ref, wire.RoleViewer, func(tx storage.Tx, sess *record) (wire.NotifySetting, error) {
		err := tx.Exec(`INSERT INTO session_notify (session_id, user_id, notify) VALUES ($1, $2, $3)
			ON CONFLICT (session_id, user_id) DO UPDATE SET notify = excluded.notify`, sess.ID, by.UserID, string(notify))
		return wire.NotifySetting{SessionID: sess.ID, Notify: notify}, err
	})
}

// notifyOf answers what a user wants to be pushed about.
func notifyOf(tx storage.Tx, sessionID, userID string) (wire.Notify, error) {
	notify := wire.NotifyAll
	_, err := tx.Get(`SELECT notify FROM session_notify WHERE session_id = $1 AND user_id = $2`, []any{sessionID, userID}, &notify)
	return notify, err
}

// Pushes lists the pushes of a session and what became of them, newest first, for its editors.
func (s *Service) Pushes(ctx context.Context, by Caller, ref string) ([]wire.Push, error) {
	return read(ctx, s, by, ref, wire.RoleEditor, func(tx storage.Tx, sess *record) ([]wire.Push, error) {
		return outbound.Pushes(tx, sess.ID)
	})
}
