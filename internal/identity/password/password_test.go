package password

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

func TestHashes(t *testing.T) {
	t.Parallel()
	h := New(env.Real())
	t.Run("WS-ID-4 argon2id, salted", func(t *testing.T) {
		t.Parallel()
		one, err := h.Hash(t.Context(), "correct horse")
		require.NoError(t, err)
		require.Regexp(t, `^\$argon2id\$v=19\$m=47104,t=1,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, one)
		two, err := h.Hash(t.Context(), "correct horse")
		require.NoError(t, err)
		require.NotEqual(t, one, two)
		for password, want := range map[string]bool{"correct horse": true, "correct horsf": false, "": false, strings.Repeat("x", 2000): false} {
			same, err := h.Check(t.Context(), password, one)
			require.NoError(t, err)
			require.Equal(t, want, same, "%.20q", password)
		}
	})
	t.Run("WS-ID-4 nobody's password is never right", func(t *testing.T) {
		t.Parallel()
		for _, password := range []string{"", "correct horse"} {
			same, err := h.Check(t.Context(), password, "")
			require.NoError(t, err)
			require.False(t, same)
		}
	})
	t.Run("what is no password", func(t *testing.T) {
		t.Parallel()
		for _, password := range []string{"", "short", strings.Repeat("x", 1025), "\xff\xff\xff\xff\xff\xff\xff\xff"} {
			_, err := h.Hash(t.Context(), password)
			require.True(t, fault.Is(err, code.ValidationFailed), "%.20q: %v", password, err)
		}
		_, err := h.Hash(t.Context(), "ăâîșțéüñ")
		require.NoError(t, err, "eight characters")
	})
}

func TestStoredHashesThatWouldCostTooMuchAreRefused(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{
		"x", "$argon2i$v=19$m=47104,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA",
		"$argon2id$v=19$m=4294967295,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA",
		"$argon2id$v=19$m=47104,t=4000000000,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA",
		"$argon2id$v=19$m=47104,t=0,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA",
		"$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA",
		"$argon2id$v=19$m=47104,t=1,p=1$$aGFzaGhhc2hoYXNoaGFzaA", "$argon2id$v=19$m=47104,t=1,p=1 $c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA",
	} {
		_, err := New(env.Real()).Check(t.Context(), "password", stored)
		require.Error(t, err, stored)
	}
	same, err := New(env.Real()).Check(t.Context(), "x", "$argon2id$v=19$m=1024,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaA")
	require.NoError(t, err, "other parameters within the bound")
	require.False(t, same)
}

func TestWaitingForALaneIsBounded(t *testing.T) {
	t.Parallel()
	h := New(env.Real())
	for range Lanes {
		h.lanes <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var group sync.WaitGroup
	errs := make(chan error, maxWaiting+1)
	for range maxWaiting + 1 {
		group.Go(func() {
			_, err := h.Check(ctx, "password", "")
			errs <- err
		})
	}
	require.True(t, fault.Is(<-errs, code.Unavailable), "the one too many")
	cancel()
	group.Wait()
	for range maxWaiting {
		require.True(t, fault.Is(<-errs, code.Unavailable))
	}
}

func BenchmarkCheck(b *testing.B) {
	h := New(env.Real())
	for b.Loop() {
		if _, err := h.Check(b.Context(), "password", ""); err != nil {
			b.Fatal(err)
		}
	}
}
