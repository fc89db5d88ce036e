package sessions

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func leaseCases() []testCase {
	return slices.Concat([]testCase{
		{rule: "SS-LEASE-1", name: "a claim, field by field, for 30 s", run: caseClaim},
		{rule: "SS-LEASE-1", name: "one's own lease is taken again and renewed", run: caseReclaim},
		{rule: "SS-LEASE-1", name: "a held lease is refused and names its holder", run: caseClaimHeld},
		{rule: "SS-LEASE-1", name: "device_id names another device of the owner", run: caseClaimForDevice},
		{rule: "SS-LEASE-2", name: "of concurrent claims exactly one wins", run: caseConcurrentClaims},
		{rule: "SS-LEASE-2", name: "concurrent forced claims form one chain", run: caseConcurrentForce},
		{rule: "SS-LEASE-3", name: "force takes a live lease", run: caseForce},
		{rule: "SS-LEASE-3", name: "no transfer when it was free or already yours", run: caseForceFree},
		{rule: "SS-LEASE-4", name: "a heartbeat without a lease says expired", run: caseHeartbeatNone},
		{rule: "SS-LEASE-4", name: "release is idempotent", run: caseRelease},
		{rule: "SS-LEASE-5", name: "the session mirrors the lease", run: caseMirror},
		{rule: "SS-LEASE-6", name: "an append that races a takeover never lands after it", run: caseAppendRace},
	},
		bothWays(testCase{rule: "SS-LEASE-5", name: "claim, heartbeat and release publish frames"}, caseLeaseFrames),
		bothWays(testCase{rule: "SS-LEASE-5", name: "an older frame never follows a newer one"}, caseLeaseOrder),
		bothWays(testCase{rule: "SS-FRM-1", name: "the last lease frame is what the row says"}, caseLeaseNewest),
	)
}

// serverTime is the Date of an answer, to the second.
func serverTime(t *trial, a *answer) time.Time {
	at, err := time.Parse(time.RFC1123, a.header.Get("Date"))
	require.NoError(t, err, "Date header of %s", a.request)
	return at
}

func caseClaim(t *trial) {
	r := t.room()
	for _, body := range []any{nil, object{}, object{"force": false}, object{"device_id": r.owner.device}} {
		a := r.owner.post(r.path("/lease"), body).want(200).has(leaseFields...)
		requireTimes(t, a.body, "expires_at")
		var lease wire.Lease
		a.into(&lease)
		require.Equal(t, r.session.ID, lease.SessionID)
		require.Equal(t, r.owner.device, lease.DeviceID)
		require.WithinDuration(t, serverTime(t, a).Add(30*time.Second), lease.ExpiresAt.Time, 3*time.Second)
	}
	r.owner.post(r.path("/lease"), "[]").bad()
	r.owner.post(r.path("/lease"), "{").bad()
}

func caseReclaim(t *trial) {
	r := t.room()
	first := r.claim(r.owner)
	renewed := func(renew func() *answer) {
		t.Eventually(patience, "the term grows", func() bool {
			var lease wire.Lease
			renew().want(200).has(leaseFields...).into(&lease)
			require.Equal(t, r.owner.device, lease.DeviceID)
			return lease.ExpiresAt.After(first.ExpiresAt.Time)
		})
		first = *r.detail(r.owner).Lease
	}
	renewed(func() *answer { return r.owner.post(r.path("/lease"), nil) })
	renewed(func() *answer { return r.owner.put(r.path("/lease")) })
	require.Empty(t, r.all())
}

func caseClaimHeld(t *trial) {
	r := t.room().executed()
	second := r.owner.anotherDevice()
	for _, body := range []any{nil, object{"force": false}} {
		a := second.post(r.path("/lease"), body).refused(code.LeaseHeld)
		require.Regexp(t, `\(holder_device_id=`+r.owner.device+`\)$`, a.message())
	}
	require.Equal(t, r.owner.device, r.detail(r.owner).Lease.DeviceID)
	r.owner.delete(r.path("/lease")).want(200)
	r.claim(second)
	require.Empty(t, r.all())
}

func caseClaimForDevice(t *trial) {
	r := t.room()
	target := r.target()
	var lease wire.Lease
	r.owner.post(r.path("/lease"), object{"device_id": target.device}).want(200).into(&lease)
	require.Equal(t, target.device, lease.DeviceID)
	r.append(target, event("user"))
	r.owner.post(r.path("/events"), object{"events": batch(1)}).refused(code.LeaseHeld)
	r.owner.post(r.path("/lease"), object{"device_id": "no-uuid"}).bad("device_id")
}

// devicesOf answers n known devices of the owner.
func (r *room) devicesOf(n int) []*caller {
	devices := make([]*caller, n)
	for i := range devices {
		devices[i] = r.target()
	}
	return devices
}

func caseConcurrentClaims(t *trial) {
	r := t.room()
	devices := r.devicesOf(12)
	for range 3 {
		answers := rulebook.Concurrently(len(devices), func(i int) *answer { return devices[i].post(r.path("/lease"), nil) })
		require.Equal(t, map[int]int{200: 1, 409: 11}, statuses(answers))
		winner := slices.IndexFunc(answers, func(a *answer) bool { return a.status == 200 })
		for _, a := range answers {
			if a.status == 409 {
				a.refused(code.LeaseHeld, "(holder_device_id="+devices[winner].device+")")
			}
		}
		require.Equal(t, devices[winner].device, r.detail(r.owner).Lease.DeviceID)
		devices[winner].delete(r.path("/lease")).want(200)
	}
	require.Empty(t, r.all())
}

// transfer is the payload of lease_transferred.
type transfer struct {
	From   string `json:"from_device_id"`
	To     string `json:"to_device_id"`
	Forced bool   `json:"forced"`
}

func (r *room) transfers() []transfer {
	var all []transfer
	for _, stored := range r.all() {
		if stored.Kind != wire.KindLeaseTransferred {
			continue
		}
		requireFields(r.t, stored.Payload, "lease_transferred", "from_device_id", "to_device_id", "forced")
		var one transfer
		require.NoError(r.t, decode(stored.Payload, &one))
		require.Equal(r.t, one.To, stored.SenderDeviceID, "the sender is the device that took it")
		all = append(all, one)
	}
	return all
}

func caseConcurrentForce(t *trial) {
	r := t.room()
	devices := r.devicesOf(8)
	answers := rulebook.Concurrently(len(devices), func(i int) *answer { return devices[i].post(r.path("/lease"), object{"force": true}) })
	require.Equal(t, map[int]int{200: 8}, statuses(answers))
	chain := r.transfers()
	require.Len(t, chain, 7, "every claim but the first took a live lease")
	for i := 1; i < len(chain); i++ {
		require.Equal(t, chain[i-1].To, chain[i].From)
	}
	require.Equal(t, chain[6].To, r.detail(r.owner).Lease.DeviceID)
}

func caseForce(t *trial) {
	r := t.room().executed()
	second := r.target()
	var lease wire.Lease
	second.post(r.path("/lease"), object{"force": true}).want(200).has(leaseFields...).into(&lease)
	require.Equal(t, second.device, lease.DeviceID)
	require.Equal(t, []transfer{{r.owner.device, second.device, true}}, r.transfers())
	lost := r.owner.put(r.path("/lease")).refused(code.LeaseHeld)
	require.Equal(t, "Lease lost to another device. (holder_device_id="+second.device+")", lost.message())
	r.owner.post(r.path("/events"), object{"events": batch(1)}).refused(code.LeaseHeld, second.device)
	second.put(r.path("/lease")).want(200)
	r.append(second, event("user"))
}

func caseForceFree(t *trial) {
	r := t.room()
	r.owner.post(r.path("/lease"), object{"force": true}).want(200)
	r.owner.post(r.path("/lease"), object{"force": true}).want(200)
	r.owner.delete(r.path("/lease")).want(200)
	r.target().post(r.path("/lease"), object{"force": true}).want(200)
	require.Empty(t, r.all())
}

func caseHeartbeatNone(t *trial) {
	r := t.room()
	expired := func(u *caller) {
		require.Equal(t, "Lease expired.", u.put(r.path("/lease")).refused(code.LeaseHeld).message())
	}
	expired(r.owner)
	r.claim(r.owner)
	r.owner.put(r.path("/lease")).want(200)
	r.owner.delete(r.path("/lease")).want(200)
	expired(r.owner)
	expired(r.target())
}

func caseRelease(t *trial) {
	r := t.room()
	release := func(u *caller, released bool) {
		a := u.delete(r.path("/lease")).want(200).has("session_id", "released")
		require.JSONEq(t, fmt.Sprintf(`{"session_id":%q,"released":%t}`, r.session.ID, released), string(a.body))
	}
	release(r.owner, false)
	r.claim(r.owner)
	release(r.target(), false)
	require.Equal(t, r.owner.device, r.detail(r.owner).Lease.DeviceID)
	release(r.owner, true)
	release(r.owner, false)
	require.Nil(t, r.detail(r.owner).Lease)
}

func caseMirror(t *trial) {
	r := t.room()
	lease := r.claim(r.owner)
	listed := r.in(r.owner.list("&limit=200"))
	require.Equal(t, r.owner.device, value(listed.ExecutorDeviceID))
	require.Equal(t, lease.ExpiresAt, value(listed.LeaseExpiresAt))
	r.owner.delete(r.path("/lease")).want(200)
	listed = r.in(r.owner.list("&limit=200"))
	require.Nil(t, listed.ExecutorDeviceID)
	require.Nil(t, listed.LeaseExpiresAt)
}

func caseAppendRace(t *trial) {
	for range 6 {
		r := t.room().executed()
		second := r.target()
		answers := rulebook.Concurrently(9, func(i int) *answer {
			if i == 4 {
				return second.post(r.path("/lease"), object{"force": true})
			}
			return r.owner.post(r.path("/events"), object{"events": batch(3)})
		})
		answers[4].want(200)
		stored := r.all()
		taken := slices.IndexFunc(stored, func(e wire.Event) bool { return e.Kind == wire.KindLeaseTransferred })
		require.Equal(t, len(stored)-1, taken, "nothing of the old holder stands after the takeover")
		committed := 0
		for i, a := range answers {
			if i == 4 {
				continue
			}
			if a.status == 200 {
				committed += 3
				continue
			}
			a.refused(code.LeaseHeld, second.device)
		}
		require.Len(t, stored, committed+1, "what was acknowledged is there, what was refused is not")
	}
}

func caseLeaseFrames(t *trial, o opener) {
	r := t.room()
	stream := o.open(r.viewer(), r, "")
	first := stream.next(wire.FrameLease)
	requireFields(t, first.data, "lease frame", o.frameFields("holder_device_id", "expires_at")...)
	require.Equal(t, leaseFrame{}, leaseOf(t, first))
	lease := r.claim(r.owner)
	got := stream.next(wire.FrameLease, heldBy(r.owner.device))
	requireFields(t, got.data, "lease frame", o.frameFields("holder_device_id", "expires_at")...)
	require.Equal(t, lease.ExpiresAt, *leaseOf(t, got).ExpiresAt)
	claimed := lease.ExpiresAt.Time
	t.Eventually(patience, "a heartbeat moves the term", func() bool {
		r.owner.put(r.path("/lease")).want(200).into(&lease)
		return lease.ExpiresAt.After(claimed)
	})
	stream.next(wire.FrameLease, func(f frame) bool {
		expires := leaseOf(t, f).ExpiresAt
		return expires != nil && expires.Equal(lease.ExpiresAt.Time)
	})
	second := r.target()
	second.post(r.path("/lease"), object{"force": true}).want(200)
	stream.next(wire.FrameLease, heldBy(second.device))
	second.delete(r.path("/lease")).want(200)
	require.Nil(t, leaseOf(t, stream.next(wire.FrameLease, heldBy(""))).ExpiresAt)
}

func caseLeaseOrder(t *trial, o opener) {
	r := t.room().executed()
	stream := o.open(r.viewer(), r, "").live()
	rulebook.Concurrently(40, func(int) *answer { return r.owner.put(r.path("/lease")) })
	r.owner.delete(r.path("/lease")).want(200)
	stream.next(wire.FrameLease, heldBy(""))
	var last time.Time
	for _, f := range stream.past {
		if f.name != wire.FrameLease {
			continue
		}
		if lease := leaseOf(t, f); lease.ExpiresAt != nil {
			require.False(t, lease.ExpiresAt.Before(last), "an older term after a newer one")
			last = lease.ExpiresAt.Time
		}
	}
}

func caseLeaseNewest(t *trial, o opener) {
	r := t.room()
	devices := r.devicesOf(5)
	stream := o.open(r.viewer(), r, "").live()
	rulebook.Concurrently(len(devices), func(i int) *answer {
		for range 4 {
			devices[i].post(r.path("/lease"), object{"force": true})
		}
		return nil
	})
	lease := *r.detail(r.owner).Lease
	got := stream.next(wire.FrameLease, func(f frame) bool {
		read := leaseOf(t, f)
		return read.Holder != nil && *read.Holder == lease.DeviceID && read.ExpiresAt.Equal(lease.ExpiresAt.Time)
	})
	_, seq := r.control(r.owner, wire.ControlSend)
	stream.next(wire.FrameEvent, func(f frame) bool { return eventOf(t, f).Seq == seq })
	for _, f := range stream.past[slices.IndexFunc(stream.past, func(f frame) bool { return &f.data[0] == &got.data[0] })+1:] {
		require.NotEqual(t, wire.FrameLease, f.name, "a lease frame after the newest: %s", f.data)
	}
}
