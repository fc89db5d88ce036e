package signin

import (
	"context"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/dpop"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// lostAnswer is how long the refresh token before the current one may be shown again: its answer was lost.
const lostAnswer = 60 * time.Second

// refresh exchanges a refresh token for new tokens (WS-ID-1).
func (s *Service) refresh(ctx context.Context, request wire.TokenRequest, proof dpop.Proof) (wire.TokenAnswer, error) {
	shown, wellFormed := token.ParseRefresh(request.RefreshToken)
	if !wellFormed {
		return wire.TokenAnswer{}, badCredentials()
	}
	// Whose it is, and on which device, is known only by reading; neither ever changes.
	row, found, err := s.signInOf(ctx, shown.Family)
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	if !found || request.Device != nil && request.Device.ID != row.device {
		return wire.TokenAnswer{}, badCredentials()
	}
	if err := s.proofs.Spend(proof, dpop.AtLogin); err != nil {
		return wire.TokenAnswer{}, err
	}
	made, err := s.writeSignIn(ctx, row.user, row.device, func(tx storage.Tx, alone bool) (issued, error) {
		return s.rotate(tx, shown, proof.Thumbprint, alone)
	})
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	if made.reused {
		return wire.TokenAnswer{}, fault.New(code.InvalidCredentials, "This refresh token was used before: the sign-in has ended.").WithCause(errRevoked)
	}
	return s.answer(ctx, made)
}

func (s *Service) signInOf(ctx context.Context, family string) (row signInRow, found bool, err error) {
	err = s.DB.Read(ctx, func(tx storage.Tx) (err error) {
		row, found, err = readSignIn(tx, `family = $1`, family)
		return err
	})
	return row, found, err
}

// turn is what becomes of a refresh token that is shown.
type turn int

const (
	turnRefused turn = iota // it ends nothing, and gets nothing
	turnRotates             // it is the current one
	turnRepeats             // it is the one before, and the answer was lost
	turnReused              // it was replaced: somebody else has it, the sign-in ends
)

// turnOf decides about a refresh token (WS-ID-1).
func (r *signInRow) turnOf(shown token.Refresh, thumbprint string, now time.Time) turn {
	sameKey := thumbprint == r.thumbprint
	switch {
	case r.revoked, !r.tokenExpiresAt.After(now):
		return turnRefused
	case r.token == shown.Secret && sameKey:
		return turnRotates
	case r.token == shown.Secret:
		return turnRefused // the token was stolen, but not the key
	case r.isPrevious(shown.Secret, now) && sameKey:
		return turnRepeats
	default:
		return turnReused
	}
}

// rotate answers the next refresh token of a sign-in. A reuse ends the sign-in, which takes alone.
func (s *Service) rotate(tx storage.Tx, shown token.Refresh, thumbprint string, alone bool) (issued, error) {
	row, found, err := readSignIn(tx, `family = $1`, shown.Family)
	if err != nil {
		return issued{}, err
	}
	if !found {
		return issued{}, badCredentials()
	}
	var text string
	switch row.turnOf(shown, thumbprint, tx.Now()) {
	case turnRotates:
		text = row.rotate(s.Env, tx.Now(), s.Auth.RefreshTokenTTL, tx.Now().Add(lostAnswer))
	case turnRepeats:
		text = row.replace(s.Env, tx.Now(), s.Auth.RefreshTokenTTL)
	case turnReused:
		if !alone {
			return issued{}, errAlone
		}
		return issued{reused: true}, s.endReused(tx, row)
	default:
		if row.revoked {
			return issued{}, badCredentials().WithCause(errRevoked)
		}
		return issued{}, badCredentials()
	}
	who, err := readPerson(tx, row.user)
	if err != nil {
		return issued{}, err
	}
	device, err := usableDevice(tx, row.device)
	if err != nil {
		return issued{}, err
	}
	if err := row.update(tx); err != nil {
		return issued{}, err
	}
	return issued{signIn: row, device: who.deviceState(device.state), principal: who.token(), refresh: text}, nil
}

func (s *Service) endReused(tx storage.Tx, row signInRow) error {
	if err := endSignIns(tx, endedByReuse, `id = $3`, row.id); err != nil {
		return err
	}
	if err := authz.Raise(tx, row.user); err != nil {
		return err
	}
	s.wakeAfter(tx)
	return audit.Write(tx, s.Env, audit.Entry{
		UserID: row.user, DeviceID: row.device, Action: actionReuse, TargetKind: "sign_in", TargetID: row.id,
	})
}
