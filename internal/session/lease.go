package session

import (
	"context"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// LeaseTTL is the term of a lease; HeartbeatEvery is how often its holder renews it (SS-LEASE-1).
const (
	LeaseTTL       = 30 * time.Second
	HeartbeatEvery = 10 * time.Second
)

// Lease is the right of one device to append, until it expires. The zero Lease is held by nobody.
// Its methods are pure: they decide, the operations below write.
type Lease struct {
	Holder    string
	ExpiresAt time.Time
}

// Transfer says that a live lease went from one device to another by force.
type Transfer struct {
	From string `json:"from_device_id"`
	To   string `json:"to_device_id"`
}

// Live reports whether somebody holds the lease at now.
func (l Lease) Live(now time.Time) bool { return l.Holder != "" && now.Before(l.ExpiresAt) }

// HeldBy reports whether device holds the lease at now.
func (l Lease) HeldBy(device string, now time.Time) bool { return l.Live(now) && l.Holder == device }

// Claim answers the lease after device asked for it at now, and what was transferred when a live
// one was taken by force (SS-LEASE-1, SS-LEASE-3).
func (l Lease) Claim(device string, now time.Time, force bool) (Lease, *Transfer, error) {
	switch {
	case !l.Live(now), l.Holder == device:
		return l.extended(device, now), nil, nil
	case force:
		return Lease{Holder: device, ExpiresAt: now.Add(LeaseTTL)}, &Transfer{From: l.Holder, To: device}, nil
	default:
		return l, nil, heldElsewhere(l.Holder)
	}
}

// Renew answers the lease after its holder's heartbeat at now (SS-LEASE-3, SS-LEASE-4).
func (l Lease) Renew(device string, now time.Time) (Lease, error) {
	switch {
	case l.HeldBy(device, now):
		return l.extended(device, now), nil
	case l.Live(now):
		return l, held("Lease lost to another device. (holder_device_id="+l.Holder+")", l.Holder)
	default:
		return l, held("Lease expired.", "")
	}
}

// Release answers the lease after device gave it up, and whether it held it (SS-LEASE-4).
func (l Lease) Release(device string, now time.Time) (Lease, bool) {
	if l.HeldBy(device, now) {
		return Lease{}, true
	}
	return l, false
}

// Require refuses unless device holds the lease at now (SS-EVT-4).
func (l Lease) Require(device string, now time.Time) error {
	switch {
	case l.HeldBy(device, now):
		return nil
	case l.Live(now):
		return heldElsewhere(l.Holder)
	default:
		return held("No live lease held by this device.", "")
	}
}

// extended gives device a full term. A clock that stepped back does not shorten the promised one
// (SS-LEASE-2).
func (l Lease) extended(device string, now time.Time) Lease {
	expires := now.Add(LeaseTTL)
	if l.Holder == device && l.ExpiresAt.After(expires) {
		expires = l.ExpiresAt
	}
	return Lease{Holder: device, ExpiresAt: expires}
}

func heldElsewhere(holder string) error {
	return held("Another device holds a live executor lease. (holder_device_id="+holder+")", holder)
}

// held is lease_held with the holder in its details, null when nobody holds the lease.
func held(message, holder string) error {
	details := struct {
		HolderDeviceID *string `json:"holder_device_id"`
	}{}
	if holder != "" {
		details.HolderDeviceID = &holder
	}
	return fault.New(code.LeaseHeld, "%s", message).WithDetails(details)
}

// ClaimLease takes the session's lease for device (SS-LEASE-1 to 3). The device must be the owning
// user's (SS-ROLE-1).
func (s *Service) ClaimLease(ctx context.Context, by Caller, ref, device string, force bool) (wire.Lease, error) {
	return write(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) (wire.Lease, error) {
		if err := requireOwnersDevice(tx, sess, device); err != nil {
			return wire.Lease{}, err
		}
		lease, transfer, err := sess.lease.Claim(device, tx.Now(), force)
		if err != nil {
			return wire.Lease{}, err
		}
		if transfer != nil {
			if err := s.transferred(tx, by, sess, *transfer); err != nil {
				return wire.Lease{}, err
			}
		}
		return s.setLease(tx, sess, lease)
	}, lockDevice(device)) // so that a device that is being deleted is not given a lease
}

// RenewLease is the holder's heartbeat.
func (s *Service) RenewLease(ctx context.Context, by Caller, ref string) (wire.Lease, error) {
	return write(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) (wire.Lease, error) {
		lease, err := sess.lease.Renew(by.DeviceID, tx.Now())
		if err != nil {
			return wire.Lease{}, err
		}
		return s.setLease(tx, sess, lease)
	})
}

// Release is the answer of ReleaseLease.
type Release struct {
	SessionID string `json:"session_id"`
	Released  bool   `json:"released"`
}

// ReleaseLease gives the lease up; releasing what one does not hold is no error (SS-LEASE-4).
func (s *Service) ReleaseLease(ctx context.Context, by Caller, ref string) (Release, error) {
	return write(ctx, s, by, ref, wire.RoleOwner, func(tx storage.Tx, sess *record) (Release, error) {
		lease, released := sess.lease.Release(by.DeviceID, tx.Now())
		if !released {
			return Release{SessionID: sess.ID}, nil
		}
		if _, err := s.setLease(tx, sess, lease); err != nil {
			return Release{}, err
		}
		err := s.audit(tx, by, sess, audit.LeaseRelease, nil)
		return Release{SessionID: sess.ID, Released: true}, err
	})
}

// setLease writes the lease and its revision, by which viewers learn of it (SS-LEASE-5).
func (s *Service) setLease(tx storage.Tx, sess *record, lease Lease) (wire.Lease, error) {
	var holder *string
	var expires *time.Time
	if lease.Holder != "" {
		holder, expires = &lease.Holder, &lease.ExpiresAt
	}
	sess.lease = lease
	sess.leaseRevision++
	sess.mirror(tx.Now())
	err := tx.Exec(`UPDATE sessions SET lease_device_id = $1, lease_expires_at = $2, lease_revision = $3 WHERE id = $4`,
		holder, expires, sess.leaseRevision, sess.ID)
	return wire.Lease{SessionID: sess.ID, DeviceID: lease.Holder, ExpiresAt: wire.Time{Time: lease.ExpiresAt}}, err
}

// transferred records that a live lease was taken by force (SS-LEASE-3).
func (s *Service) transferred(tx storage.Tx, by Caller, sess *record, transfer Transfer) error {
	payload := mustJSON(struct {
		From   string `json:"from_device_id"`
		To     string `json:"to_device_id"`
		Forced bool   `json:"forced"`
	}{transfer.From, transfer.To, true})
	event := wire.Event{Kind: wire.KindLeaseTransferred, TS: tx.Now().UnixMilli(), SenderDeviceID: transfer.To, Payload: payload}
	if err := s.emit(tx, sess, event); err != nil {
		return err
	}
	return s.audit(tx, by, sess, audit.LeaseForce, transfer)
}

// requireOwnersDevice refuses a device that is not one of the session's owning user.
func requireOwnersDevice(tx storage.Tx, sess *record, device string) error {
	owned, err := ownersDevice(tx, sess, device)
	if err != nil {
		return err
	}
	if !owned {
		return fault.New(code.Forbidden, "Only a device of the session's owner can hold the lease.")
	}
	return nil
}

func ownersDevice(tx storage.Tx, sess *record, device string) (bool, error) {
	return tx.Get(`SELECT id FROM devices WHERE id = $1 AND user_id = $2 AND deleted_at IS NULL`,
		[]any{device, sess.OwnerUserID}, new(string))
}
