package signal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalDeliversInLineAndInOrder(t *testing.T) {
	t.Parallel()
	bus := NewLocal()
	var heard []Wake
	bus.Subscribe(func(wake Wake) { heard = append(heard, wake) })
	bus.Publish(Wake{Session, "a"}, Wake{Inbox, "b"})
	bus.Publish(Wake{})
	require.Equal(t, []Wake{{Session, "a"}, {Inbox, "b"}, {}}, heard)
}

func TestSubscribersMayPublishAndCancelFromInside(t *testing.T) {
	t.Parallel()
	bus := NewLocal()
	var first, second []Wake
	var cancel func()
	cancel = bus.Subscribe(func(wake Wake) {
		first = append(first, wake)
		cancel()
		bus.Publish(Wake{Push, "again"})
	})
	bus.Subscribe(func(wake Wake) { second = append(second, wake) })
	bus.Publish(Wake{Push, "once"})
	require.Equal(t, []Wake{{Push, "once"}}, first, "cancelled after the first")
	require.ElementsMatch(t, []Wake{{Push, "once"}, {Push, "again"}}, second)
}
