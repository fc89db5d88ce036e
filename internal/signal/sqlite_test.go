package signal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
)

// versions is a data version that tests move.
type versions struct {
	mu      sync.Mutex
	version int64
	err     error
}

func (v *versions) read(context.Context) (int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.version, v.err
}

func (v *versions) set(version int64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version, v.err = version, err
}

func TestSQLiteNoticesOtherWriters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := &versions{version: 7}
		bus := NewSQLite(file.read, env.Real(), slog.New(slog.DiscardHandler))
		heard := &ears{}
		bus.Subscribe(heard.hear)
		require.NoError(t, bus.Start(t.Context()))

		pass(5 * sqlitePollInterval)
		require.Empty(t, heard.all(), "nothing changed")

		file.set(8, nil)
		pass(2 * sqlitePollInterval)
		require.Equal(t, []Wake{{}}, heard.all(), "one change, one wake-up")

		file.set(8, errors.New("busy"))
		pass(2 * sqlitePollInterval)
		file.set(9, nil)
		pass(2 * sqlitePollInterval)
		require.Equal(t, []Wake{{}, {}}, heard.all(), "a failure in between hides no change")

		bus.Publish(Wake{Session, "own"})
		require.Equal(t, Wake{Session, "own"}, heard.all()[2])
		require.NoError(t, bus.Stop(t.Context()))
	})
}

func TestSQLiteStartFailsWithItsDatabase(t *testing.T) {
	t.Parallel()
	file := &versions{err: errors.New("no such file")}
	bus := NewSQLite(file.read, env.Real(), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, bus.Start(t.Context()), "no such file")
	require.NoError(t, bus.Stop(t.Context()), "what did not start stops at once")
}

// ears remember what they hear.
type ears struct {
	mu    sync.Mutex
	wakes []Wake
}

func (e *ears) hear(wake Wake) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakes = append(e.wakes, wake)
}

func (e *ears) all() []Wake {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Wake(nil), e.wakes...)
}

func (e *ears) count(wanted Wake) (times int) {
	for _, wake := range e.all() {
		if wake == wanted {
			times++
		}
	}
	return times
}

// pass lets the bubble's time go by and everything in it settle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
