package signin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/dpop"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxSignInsOfDevice is how many sign-ins a device has at a time; one more ends the oldest.
const maxSignInsOfDevice = 10

// TokenCall is a call of POST auth/token.
type TokenCall struct {
	Request wire.TokenRequest
	URL     string   // as of Request.URL
	DPoP    []string // every value of the header
	// Address is where the call comes from; failed logins are counted by it.
	Address string
}

// grant is what a caller of the token endpoint has proved.
type grant struct {
	user     string
	authTime time.Time // when the person proved who it is; zero: now
	// use looks again, in the transaction that signs in, at what was decided before it, and uses up what is good once.
	use func(tx storage.Tx) error
}

// Token exchanges a grant for an access token and a refresh token (WS-ID-1), or with a session id renews
// the authentication of that sign-in (WS-ID-5). The refusals are validation_failed, invalid_dpop_proof,
// use_dpop_nonce, invalid_credentials, forbidden (the device is another account's, or revoked),
// rate_limited and unavailable.
func (s *Service) Token(ctx context.Context, call TokenCall) (wire.TokenAnswer, error) {
	if err := checkTokenRequest(&call.Request); err != nil {
		return wire.TokenAnswer{}, err
	}
	target, err := s.target(call.URL)
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	proof, err := s.verifyProof(one(call.DPoP), dpop.Want{Method: "POST", Target: target})
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	if call.Request.GrantType == wire.GrantRefreshToken {
		return s.refresh(ctx, call.Request, proof)
	}
	proved, err := s.prove(ctx, call)
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	if err := s.proofs.Spend(proof, dpop.AtLogin); err != nil {
		return wire.TokenAnswer{}, err
	}
	return s.signIn(ctx, call.Request, proved, proof.Thumbprint)
}

// prove answers whom the credentials of a call belong to.
func (s *Service) prove(ctx context.Context, call TokenCall) (grant, error) {
	switch call.Request.GrantType {
	case wire.GrantPassword:
		return s.byPassword(ctx, call)
	case wire.GrantLoginCode:
		return s.byLoginCode(ctx, call)
	default:
		return s.byIssuer(ctx, call)
	}
}

func badCredentials() *fault.Error {
	return fault.New(code.InvalidCredentials, "These credentials are no good.")
}

// issued is a sign-in as its transaction leaves it, with the refresh token that belongs to it now.
type issued struct {
	signIn    signInRow
	device    wire.DeviceState
	principal wire.TokenPrincipal
	refresh   string
	reused    bool // nothing was issued: the refresh token had been used before, and the sign-in has ended
}

// errAlone says that the transaction has to be repeated as a permission change: it ends sign-ins (ES-8.2).
var errAlone = errors.New("sign-ins end: the permission version has to be locked")

// writeSignIn runs write under the locks of a person and a device. When write answers errAlone before it
// wrote anything, it runs again as a permission change.
func (s *Service) writeSignIn(ctx context.Context, user, device string, write func(tx storage.Tx, alone bool) (issued, error)) (issued, error) {
	keys := []storage.Key{{Lock: storage.LockUsers, ID: user}, {Lock: storage.LockDevices, ID: device}}
	made, err := storage.Write(ctx, s.DB, keys, func(tx storage.Tx) (issued, error) { return write(tx, false) })
	if !errors.Is(err, errAlone) {
		return made, err
	}
	return storage.Write(ctx, s.DB, append(keys, storage.ChangePermissions), func(tx storage.Tx) (issued, error) { return write(tx, true) })
}

// signIn makes a sign-in on a device, or renews the authentication of one.
func (s *Service) signIn(ctx context.Context, request wire.TokenRequest, proved grant, thumbprint string) (wire.TokenAnswer, error) {
	made, err := s.writeSignIn(ctx, proved.user, request.Device.ID, func(tx storage.Tx, alone bool) (issued, error) {
		person, err := readPerson(tx, proved.user)
		if err != nil {
			return issued{}, err
		}
		if request.SessionID != "" {
			return s.stepUp(tx, request, proved, person, thumbprint)
		}
		return s.newSignIn(tx, request, proved, person, thumbprint, alone)
	})
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	return s.answer(ctx, made)
}

// person is the principal of a sign-in.
type person struct {
	id, handle string
	status     wire.Status
}

// readPerson reads a person that may sign in.
func readPerson(tx storage.Tx, id string) (person, error) {
	read := person{id: id}
	found, err := tx.Get(`SELECT handle, status FROM principals WHERE id = $1 AND kind = 'user'`, []any{id}, &read.handle, &read.status)
	if err != nil {
		return person{}, fmt.Errorf("read person: %w", err)
	}
	if !found || read.status == wire.StatusDisabled {
		return person{}, badCredentials().WithCause(errRevoked)
	}
	return read, nil
}

func (p person) token() wire.TokenPrincipal {
	return wire.TokenPrincipal{ID: p.id, Kind: wire.KindUser, Handle: p.handle}
}

// deviceState answers the state of a device as its person sees it: nothing of a person who waits for approval is active.
func (p person) deviceState(state wire.DeviceState) wire.DeviceState {
	if p.status == wire.StatusPending && state == wire.DeviceActive {
		return wire.DevicePending
	}
	return state
}

// newSignIn makes a sign-in. A device whose key changes loses its earlier ones, and one that has many its oldest; both
// take alone.
func (s *Service) newSignIn(tx storage.Tx, request wire.TokenRequest, proved grant, who person, thumbprint string, alone bool) (issued, error) {
	device, err := s.decideDevice(tx, who.id, *request.Device, thumbprint)
	if err != nil {
		return issued{}, err
	}
	crowded := false
	if !device.rebound { // which leaves none
		if crowded, err = isCrowded(tx, device.id); err != nil {
			return issued{}, err
		}
	}
	if (device.rebound || crowded) && !alone {
		return issued{}, errAlone
	}
	if err := proved.use(tx); err != nil {
		return issued{}, err
	}
	if err := s.bindDevice(tx, device); err != nil {
		return issued{}, err
	}
	refresh, text := token.NewRefresh(s.Env, token.NewFamily(s.Env))
	row := signInRow{
		id: s.Env.NewID(), user: who.id, device: device.id, thumbprint: thumbprint, authTime: tx.Now(),
		family: refresh.Family, token: refresh.Secret, tokenExpiresAt: tx.Now().Add(s.Auth.RefreshTokenTTL),
	}
	if !proved.authTime.IsZero() && proved.authTime.Before(row.authTime) {
		row.authTime = proved.authTime
	}
	if err := row.insert(tx); err != nil {
		return issued{}, err
	}
	if err := forgetOldSignIns(tx, row); err != nil {
		return issued{}, err
	}
	if crowded {
		if err := authz.Raise(tx, who.id); err != nil {
			return issued{}, err
		}
	}
	if device.rebound || crowded { // a sign-in that is only new is known to nobody yet
		s.wakeAfter(tx)
	}
	err = audit.Write(tx, s.Env, audit.Entry{
		UserID: who.id, DeviceID: device.id, Action: actionSignIn, TargetKind: "sign_in", TargetID: row.id,
		Detail: map[string]string{"grant_type": request.GrantType},
	})
	if err != nil {
		return issued{}, err
	}
	return issued{signIn: row, device: who.deviceState(device.state), principal: who.token(), refresh: text}, nil
}

// stepUp moves the authentication time of a sign-in (WS-ID-5). The refresh token before stays good until the
// new one is used: nobody is locked out by a lost answer.
func (s *Service) stepUp(tx storage.Tx, request wire.TokenRequest, proved grant, who person, thumbprint string) (issued, error) {
	row, found, err := readSignIn(tx, `id = $1`, request.SessionID)
	switch {
	case err != nil:
		return issued{}, err
	case !found || row.user != who.id || row.thumbprint != thumbprint || row.device != request.Device.ID:
		return issued{}, badCredentials()
	case row.revoked || !row.tokenExpiresAt.After(tx.Now()):
		return issued{}, badCredentials().WithCause(errRevoked)
	}
	device, err := usableDevice(tx, row.device)
	if err != nil {
		return issued{}, err
	}
	authTime := tx.Now()
	if !proved.authTime.IsZero() && proved.authTime.Before(authTime) {
		authTime = proved.authTime
	}
	if authTime.After(row.authTime) {
		row.authTime = authTime
	}
	if err := proved.use(tx); err != nil {
		return issued{}, err
	}
	text := row.rotate(s.Env, tx.Now(), s.Auth.RefreshTokenTTL, row.tokenExpiresAt)
	if err := row.update(tx); err != nil {
		return issued{}, err
	}
	return issued{signIn: row, device: who.deviceState(device.state), principal: who.token(), refresh: text}, nil
}

// answer writes the tokens of a sign-in.
func (s *Service) answer(ctx context.Context, made issued) (wire.TokenAnswer, error) {
	now := s.Env.Now()
	access, err := s.keys.sign(ctx, token.Access{
		Principal: made.signIn.user, SignIn: made.signIn.id, Device: made.signIn.device, AuthTime: made.signIn.authTime,
		Thumbprint: made.signIn.thumbprint, IssuedAt: now, ExpiresAt: now.Add(s.Auth.AccessTokenTTL), ID: s.Env.RandomID(),
	})
	if err != nil {
		return wire.TokenAnswer{}, err
	}
	return wire.TokenAnswer{
		AccessToken: access, TokenType: "DPoP", ExpiresIn: int64(s.Auth.AccessTokenTTL / time.Second), RefreshToken: made.refresh,
		SessionID: made.signIn.id, Device: wire.DeviceOfToken{ID: made.signIn.device, State: made.device}, Principal: made.principal,
	}, nil
}

// checkTokenRequest answers validation_failed for a request that lacks what its grant needs, and brings its
// ids into their canonical form.
func checkTokenRequest(r *wire.TokenRequest) error {
	needed := map[string][]struct{ pointer, value string }{
		wire.GrantPassword:     {{"/username", r.Username}, {"/password", r.Password}},
		wire.GrantLoginCode:    {{"/code", r.Code}},
		wire.GrantOIDCCode:     {{"/code", r.Code}, {"/code_verifier", r.CodeVerifier}, {"/redirect_uri", r.RedirectURI}},
		wire.GrantRefreshToken: {{"/refresh_token", r.RefreshToken}},
	}
	members, known := needed[r.GrantType]
	if !known {
		return fault.Invalid("/grant_type", "is not one of password, login_code, oidc_code and refresh_token")
	}
	for _, member := range members {
		if member.value == "" {
			return fault.Invalid(member.pointer, "is needed for this grant")
		}
	}
	refreshes := r.GrantType == wire.GrantRefreshToken
	if r.SessionID != "" {
		id, isID := env.ParseID(r.SessionID)
		if !isID || refreshes {
			return fault.Invalid("/session_id", "is a UUID, and not for this grant")
		}
		r.SessionID = id
	}
	return checkDevice(r, refreshes)
}

func checkDevice(r *wire.TokenRequest, optional bool) error {
	if r.Device == nil {
		if optional {
			return nil
		}
		return fault.Invalid("/device", "is needed for this grant")
	}
	id, isID := env.ParseID(r.Device.ID)
	if !isID {
		return fault.Invalid("/device/id", "is a UUID")
	}
	device := *r.Device
	device.ID = id
	r.Device = &device
	return nil
}
