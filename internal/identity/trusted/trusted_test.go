package trusted

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
)

func TestAnswersAreTrustedForAMoment(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	a := New[string, int](env.WithClock(func() time.Time { return now }))
	asked := 0
	ask := func(key string, good bool) int {
		t.Helper()
		before := asked
		_, got, err := a.Ask(t.Context(), key, func(context.Context) (int, bool, error) { asked++; return asked, good, nil })
		require.NoError(t, err)
		require.Equal(t, good, got)
		return asked - before
	}
	require.Equal(t, 1, ask("a", true))
	require.Equal(t, 1, ask("a", true), "without wake-ups nothing is trusted")
	a.Listening(true)
	require.Zero(t, ask("a", true))
	require.Equal(t, 1, ask("b", false))
	require.Zero(t, ask("b", false), "bad answers too")
	now = now.Add(Trust)
	require.Equal(t, 1, ask("a", true))
	a.Forget()
	require.Equal(t, 1, ask("a", true))
	now = now.Add(-time.Hour)
	require.Equal(t, 1, ask("a", true), "a clock that steps back trusts nothing")
	require.Equal(t, 1, ask("b", true), "what was unknown may become known")
	require.Zero(t, ask("b", true))

	failure := errors.New("no database")
	_, _, err := a.Ask(t.Context(), "c", func(context.Context) (int, bool, error) { return 0, false, failure })
	require.ErrorIs(t, err, failure)
	require.Equal(t, 1, ask("c", true), "a failure is no answer")
}

func TestAFloodOfUnknownOnesEvictsNoKnownOne(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	a := New[string, string](env.WithClock(func() time.Time { return now }))
	a.Listening(true)
	_, _, err := a.Ask(t.Context(), "known", func(context.Context) (string, bool, error) { return "v", true, nil })
	require.NoError(t, err)
	for i := range maxUnknown * 2 {
		_, _, err := a.Ask(t.Context(), fmt.Sprint(i), func(context.Context) (string, bool, error) { return "", false, nil })
		require.NoError(t, err)
	}
	require.Equal(t, maxUnknown, a.unknown.Len())
	value, good, err := a.Ask(t.Context(), "known", nil)
	require.NoError(t, err)
	require.True(t, good)
	require.Equal(t, "v", value)
}

// An answer that was read before something changed is not trusted after it.
func TestAnAnswerThatAChangeOvertook(t *testing.T) {
	t.Parallel()
	a := New[string, int](env.Real())
	a.Listening(true)
	reading, changed := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_, _, err := a.Ask(t.Context(), "a", func(context.Context) (int, bool, error) {
			close(reading)
			<-changed
			return 1, true, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	a.Forget()
	value, _, err := a.Ask(t.Context(), "a", func(context.Context) (int, bool, error) { return 2, true, nil })
	require.NoError(t, err)
	require.Equal(t, 2, value, "who asks after the change does not wait for who asked before")
	close(changed)
	group.Wait()
	value, _, err = a.Ask(t.Context(), "a", func(context.Context) (int, bool, error) { return 3, true, nil })
	require.NoError(t, err)
	require.NotEqual(t, 1, value)
}

// What a signature vouches for is not turned away, and does not wait, while unknown ones fill their lanes.
func TestProvenOnesDoNotWaitForUnknownOnes(t *testing.T) {
	t.Parallel()
	a := New[string, int](env.Real())
	full := make(chan struct{}, unknownLanes)
	end := make(chan struct{})
	var group sync.WaitGroup
	for i := range unknownLanes {
		group.Go(func() {
			_, _, err := a.Ask(t.Context(), fmt.Sprint(i), func(context.Context) (int, bool, error) {
				full <- struct{}{}
				<-end
				return 0, false, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range unknownLanes {
		<-full
	}
	for i := range 2 * maxUnknownWaiting {
		_, good, err := a.AskProven(t.Context(), fmt.Sprintf("proven %d", i), func(context.Context) (int, bool, error) { return 0, true, nil })
		require.NoError(t, err)
		require.True(t, good)
	}
	close(end)
	group.Wait()
}
