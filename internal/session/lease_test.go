package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/internal/fault"
)

var noon = time.Date(2026, 9, 13, 12, 0, 0, 0, time.UTC)

func TestLeaseTable(t *testing.T) {
	t.Parallel()
	held := Lease{Holder: "a", ExpiresAt: noon.Add(20 * time.Second)}
	ran := Lease{Holder: "a", ExpiresAt: noon}
	full := noon.Add(LeaseTTL)

	t.Run("SS-LEASE-1 who may claim", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name     string
			lease    Lease
			device   string
			force    bool
			want     Lease
			transfer *Transfer
			refused  string
		}{
			{"free", Lease{}, "b", false, Lease{"b", full}, nil, ""},
			{"free by force", Lease{}, "b", true, Lease{"b", full}, nil, ""},
			{"expired at this very moment", ran, "b", false, Lease{"b", full}, nil, ""},
			{"expired by force is no transfer", ran, "b", true, Lease{"b", full}, nil, ""},
			{"own", held, "a", false, Lease{"a", full}, nil, ""},
			{"own by force is no transfer", held, "a", true, Lease{"a", full}, nil, ""},
			{"held", held, "b", false, held, nil, "Another device holds a live executor lease. (holder_device_id=a)"},
			{"SS-LEASE-3 held by force", held, "b", true, Lease{"b", full}, &Transfer{"a", "b"}, ""},
		} {
			got, transfer, err := c.lease.Claim(c.device, noon, c.force)
			require.Equal(t, c.want, got, c.name)
			require.Equal(t, c.transfer, transfer, c.name)
			requireRefusal(t, c.refused, err)
		}
	})

	t.Run("SS-LEASE-4 who may renew", func(t *testing.T) {
		t.Parallel()
		got, err := held.Renew("a", noon)
		require.NoError(t, err)
		require.Equal(t, Lease{"a", full}, got)
		for device, lease := range map[string]Lease{"a": ran, "b": ran, "c": {}} {
			_, err = lease.Renew(device, noon)
			requireRefusal(t, "Lease expired.", err)
		}
		_, err = held.Renew("b", noon)
		requireRefusal(t, "Lease lost to another device. (holder_device_id=a)", err)
	})

	t.Run("SS-LEASE-4 release is idempotent", func(t *testing.T) {
		t.Parallel()
		got, released := held.Release("a", noon)
		require.True(t, released)
		require.Equal(t, Lease{}, got)
		for device, lease := range map[string]Lease{"a": ran, "b": held, "c": {}} {
			got, released := lease.Release(device, noon)
			require.False(t, released)
			require.Equal(t, lease, got)
		}
	})

	t.Run("SS-EVT-4 who may append", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, held.Require("a", noon))
		requireRefusal(t, "Another device holds a live executor lease. (holder_device_id=a)", held.Require("b", noon))
		requireRefusal(t, "No live lease held by this device.", ran.Require("a", noon))
		requireRefusal(t, "No live lease held by this device.", Lease{}.Require("a", noon))
	})
}

func requireRefusal(t *testing.T, message string, err error) {
	t.Helper()
	if message == "" {
		require.NoError(t, err)
		return
	}
	refusal := new(fault.Error)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, message, refusal.Message)
}

// Any sequence of requests, on a clock that may step back, keeps the promises of the lease.
func TestLeaseProperties(t *testing.T) {
	t.Parallel()
	t.Run("SS-LEASE-2 a promised term is never shortened and never given twice", rapid.MakeCheck(func(t *rapid.T) {
		var lease Lease
		now := noon
		promised := map[string]time.Time{} // until when a device may believe that it holds the lease
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-20, 40).Draw(t, "seconds")) * time.Second)
			device := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "device")
			before := lease
			switch rapid.IntRange(0, 3).Draw(t, "request") {
			case 0, 1:
				force := rapid.Bool().Draw(t, "force")
				next, transfer, err := lease.Claim(device, now, force)
				if err != nil {
					if lease.Holder == device || !lease.Live(now) || force {
						t.Fatalf("claim refused: %v", err)
					}
					break
				}
				if (transfer != nil) != (force && before.Live(now) && before.Holder != device) {
					t.Fatalf("transfer %v", transfer)
				}
				if before.Holder != device {
					delete(promised, before.Holder)
				}
				lease = next
			case 2:
				next, err := lease.Renew(device, now)
				if (err == nil) != before.HeldBy(device, now) {
					t.Fatalf("renew: %v", err)
				}
				lease = next
			case 3:
				next, released := lease.Release(device, now)
				if released != before.HeldBy(device, now) {
					t.Fatal("released what was not held")
				}
				if released {
					delete(promised, device)
				}
				lease = next
			}
			if lease.Holder != "" && lease.Live(now) {
				if lease.ExpiresAt.Before(promised[lease.Holder]) {
					t.Fatalf("promised %v, now %v", promised[lease.Holder], lease.ExpiresAt)
				}
				promised[lease.Holder] = lease.ExpiresAt
			}
		}
	}))
}
