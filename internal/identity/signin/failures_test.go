package signin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

func TestAttemptsThatRunCountAsIfTheyFailed(t *testing.T) {
	t.Parallel()
	f := newFailures(env.Real(), true)
	var running []func(outcome)
	for range maxFailures {
		done, err := f.attempt(t.Context(), "account", "address")
		require.NoError(t, err)
		running = append(running, done)
	}
	t.Run("WS-ID-4 the eleventh waits, and goes away with its caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.attempt(ctx, "account", "address")
		require.ErrorIs(t, err, context.Canceled)
		_, err = f.attempt(t.Context(), "another account", "another address")
		require.NoError(t, err, "others do not wait")
	})
	entered := make(chan error, 1)
	var waits sync.WaitGroup
	waits.Go(func() {
		done, err := f.attempt(t.Context(), "account", "address")
		if err == nil {
			done(undecided)
		}
		entered <- err
	})
	for _, done := range running[1:] {
		done(failed)
	}
	running[0](undecided)
	require.NoError(t, <-entered, "one place is left: nobody found out about that one")
	waits.Wait()
	done, err := f.attempt(t.Context(), "account", "address")
	require.NoError(t, err)
	done(failed)
	_, err = f.attempt(t.Context(), "account", "elsewhere")
	require.True(t, fault.Is(err, code.RateLimited), "%v", err)
	_, err = f.attempt(t.Context(), "somebody", "address")
	require.True(t, fault.Is(err, code.RateLimited), "%v", err)
}

func TestWhatIsCountedIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	f := newFailures(env.WithClock(func() time.Time { return now }), true)
	for i := range maxCounted + 10 {
		done, err := f.attempt(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		done(failed)
	}
	require.Equal(t, maxCounted, f.counts.Len())
	f.waiting = maxAttempts
	for range maxFailures {
		_, err := f.attempt(t.Context(), "full")
		require.NoError(t, err)
	}
	_, err := f.attempt(t.Context(), "full")
	require.True(t, fault.Is(err, code.Unavailable), "%v", err)
}

func TestAddressNames(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:80": "address 192.0.2.1/32", "192.0.2.1": "address 192.0.2.1/32", "[::ffff:192.0.2.1]:80": "address 192.0.2.1/32",
		"[2001:db8::1]:80": "address 2001:db8::/64", "2001:db8::ffff": "address 2001:db8::/64", "fe80::1%eth0": "address fe80::/64",
		"": "address ", "@": "address @",
	} {
		require.Equal(t, want, Network(address), address)
	}
}

func TestFailuresOfAnAccountAreNotPushedOut(t *testing.T) {
	t.Parallel()
	f := newFailures(env.Real(), true)
	fail := func(names ...string) {
		done, err := f.attempt(t.Context(), names...)
		require.NoError(t, err)
		done(failed)
	}
	for i := range maxFailures {
		fail("account victim", fmt.Sprint("address of the victim ", i))
		fail(fmt.Sprint("nobody ", i), "address refused")
	}
	locked := func(why string) {
		_, err := f.attempt(t.Context(), "account victim", "address fresh")
		require.True(t, fault.Is(err, code.RateLimited), "%s: %v", why, err)
	}
	t.Run("WS-ID-4 by attempts that are refused", func(t *testing.T) {
		before := f.counts.Len()
		for i := range 2 * maxCounted {
			_, err := f.attempt(t.Context(), fmt.Sprint("nobody, refused ", i), "address refused")
			require.True(t, fault.Is(err, code.RateLimited), "%v", err)
		}
		require.Equal(t, before, f.counts.Len(), "who is refused takes no room")
		locked("refused attempts")
	})
	t.Run("WS-ID-4 by names that nobody has, from many addresses", func(t *testing.T) {
		for i := range maxCounted + 1 {
			fail(fmt.Sprint("nobody, from afar ", i), fmt.Sprint("address afar ", i))
		}
		locked("failed attempts of others")
	})
	t.Run("what has not failed is not kept", func(t *testing.T) {
		f := newFailures(env.Real(), true)
		for _, how := range []outcome{succeeded, undecided} {
			done, err := f.attempt(t.Context(), "account fine", "address fine")
			require.NoError(t, err)
			done(how)
		}
		require.Zero(t, f.accounts.Len()+f.counts.Len())
	})
}
