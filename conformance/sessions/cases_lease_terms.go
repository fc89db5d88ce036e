package sessions

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// leaseTermCases wait for a lease to run out: each takes its 30 s, all at once.
func leaseTermCases() []testCase {
	return []testCase{
		{rule: "SS-LEASE-1", name: "an expired lease is free for another device", slow: true, run: caseExpiredClaim},
		{rule: "SS-LEASE-3", name: "forcing an expired lease transfers nothing", slow: true, run: caseExpiredForce},
		{rule: "SS-LEASE-4", name: "a heartbeat on an expired lease says so", slow: true, run: caseExpiredHeartbeat},
		{rule: "SS-LEASE-5", name: "a lease that runs out is said with nulls within a second", slow: true, ours: true, run: caseExpiryFrame},
		{rule: "SS-EVT-4", name: "an expired lease appends nothing", slow: true, run: caseExpiredAppend},
	}
}

const leaseTerm = 30 * time.Second

// lapse waits until the lease of r has run out, asking without touching it.
func (r *room) lapse() {
	r.t.Eventually(leaseTerm+patience, "the lease runs out", func() bool { return r.detail(r.owner).Lease == nil })
}

func caseExpiredClaim(t *trial) {
	r := t.room()
	began := time.Now()
	r.claim(r.owner)
	second := r.target()
	t.Eventually(leaseTerm+patience, "another device may claim", func() bool {
		return second.post(r.path("/lease"), nil).status == 200
	})
	require.Greater(t, time.Since(began), leaseTerm-2*time.Second, "not before the term ended")
	require.Empty(t, r.all(), "no transfer event")
	r.owner.put(r.path("/lease")).refused(code.LeaseHeld, "Lease lost to another device.", second.device)
}

func caseExpiredForce(t *trial) {
	r := t.room().executed()
	r.lapse()
	r.target().post(r.path("/lease"), object{"force": true}).want(200)
	require.Empty(t, r.all())
}

func caseExpiredHeartbeat(t *trial) {
	r := t.room().executed()
	r.lapse()
	require.Equal(t, "Lease expired.", r.owner.put(r.path("/lease")).refused(code.LeaseHeld).message())
	r.owner.delete(r.path("/lease")).want(200)
	r.claim(r.owner)
}

func caseExpiredAppend(t *trial) {
	r := t.room().executed()
	id, _ := r.control(r.owner, wire.ControlSend)
	r.lapse()
	for _, a := range []*answer{r.owner.post(r.path("/events"), object{"events": batch(1)}), r.applied(r.owner, id)} {
		require.Equal(t, heldByNobody, a.refused(code.LeaseHeld).message())
	}
	require.Len(t, r.all(), 1)
}

func caseExpiryFrame(t *trial) {
	r := t.room()
	viewer := r.viewer()
	feeds := []*feed{openSSE(viewer, r, "").live(), openWebSocket(viewer, r, "").live()}
	claimed := time.Now()
	lease := r.claim(r.owner)
	for _, f := range feeds {
		held := f.next(wire.FrameLease, heldBy(r.owner.device))
		require.Equal(t, lease.ExpiresAt, *leaseOf(t, held).ExpiresAt)
	}
	for _, f := range feeds {
		gone := f.nextWithin(leaseTerm+patience, wire.FrameLease, heldBy(""))
		require.Nil(t, leaseOf(t, gone).ExpiresAt)
		took := gone.at.Sub(claimed)
		require.Greater(t, took, leaseTerm-time.Second)
		require.Less(t, took, leaseTerm+promptly, "within a second of the end")
	}
	detail := r.detail(r.owner)
	require.Nil(t, detail.Lease)
	require.Nil(t, detail.ExecutorDeviceID)
	require.Nil(t, detail.LeaseExpiresAt)
}
