package signin

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/dpop"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// standing is what the database says about a sign-in.
type standing struct {
	user, device string
	// thumbprint is of the key the sign-in is bound to, deviceKey the one the device proves itself with now.
	thumbprint, deviceKey string
	revoked, restored     bool
	deviceState           wire.DeviceState
	deviceDeleted         bool
	person                wire.Status
}

// Authenticate answers who sends a request (WS-ID-2): people with an access token and a proof of
// possession, agents and apps with an API token. It is invalid_token (Revoked where the client has to
// forget everything), token_expired, invalid_dpop_proof, use_dpop_nonce, device_pending, or unavailable.
func (s *Service) Authenticate(ctx context.Context, r Request) (Caller, error) {
	if len(r.Authorization) != 1 {
		return Caller{}, noToken()
	}
	target, err := s.target(r.URL)
	if err != nil {
		return Caller{}, err
	}
	want := dpop.Want{Method: r.Method, Target: target}
	scheme, credentials, _ := strings.Cut(r.Authorization[0], " ")
	switch {
	case strings.EqualFold(scheme, "DPoP"):
		return s.byAccessToken(ctx, credentials, one(r.DPoP), want, r.AllowPending)
	case strings.EqualFold(scheme, "Bearer"):
		return s.byAPIToken(ctx, credentials, one(r.DPoP), want)
	default:
		return Caller{}, noToken()
	}
}

// AuthenticateGateway answers who identifies, resumes or renews its token on a connection (ES-6.3.3). Its
// errors are those of Authenticate; CloseCode says how each ends the connection.
func (s *Service) AuthenticateGateway(ctx context.Context, r GatewayRequest) (Caller, error) {
	target, err := s.target(r.URL)
	if err != nil {
		return Caller{}, err
	}
	want := dpop.Want{Method: "GET", Target: target, Nonce: r.Nonce}
	switch {
	case r.APIToken != "" && r.AccessToken == "":
		return s.byAPIToken(ctx, r.APIToken, r.DPoP, want)
	case r.AccessToken == "" || r.APIToken != "":
		return Caller{}, noToken()
	}
	access, err := s.keys.verify(ctx, r.AccessToken)
	if err != nil {
		return Caller{}, err
	}
	if r.DeviceID != "" && !strings.EqualFold(r.DeviceID, access.Device) {
		return Caller{}, fault.New(code.InvalidToken, "The token is of another device.")
	}
	return s.byAccessToken(ctx, r.AccessToken, r.DPoP, want, false)
}

func noToken() error {
	return fault.New(code.InvalidToken, "Send Authorization: DPoP <access token> with a DPoP proof, or Bearer <API token>.")
}

// one answers the only value of a header, "" for none or several: a proof that is not the only one proves
// nothing (RFC 9449 section 4.3).
func one(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// target answers what proofs for an address have to name.
func (s *Service) target(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fault.New(code.InvalidToken, "The address of the request cannot be read.").WithCause(err)
	}
	base := u.Scheme + "://" + u.Host
	switch {
	case s.PublicURL != "":
		base = strings.TrimSuffix(s.PublicURL, "/")
	case !s.LoopbackOnly:
		return "", fault.New(code.Unavailable, "The server does not know its own address: http.public_url is not set.")
	}
	target, ok := dpop.Target(base + u.EscapedPath())
	if !ok {
		return "", fault.New(code.InvalidToken, "The address of the request cannot be read.")
	}
	return target, nil
}

func (s *Service) byAccessToken(ctx context.Context, raw, proof string, want dpop.Want, allowPending bool) (Caller, error) {
	access, err := s.keys.verify(ctx, raw)
	if err != nil {
		return Caller{}, err
	}
	want.AccessToken = raw
	verified, err := s.verifyProof(proof, want)
	if err != nil {
		return Caller{}, err
	}
	if verified.Thumbprint != access.Thumbprint {
		return Caller{}, fault.New(code.InvalidDPoPProof, "The DPoP proof is no good: the token is bound to another key.")
	}
	now, found, err := s.signIns.AskProven(ctx, access.SignIn, func(ctx context.Context) (standing, bool, error) { return s.readStanding(ctx, access.SignIn) })
	if err != nil {
		return Caller{}, err
	}
	pending, err := now.admits(found, access)
	if err != nil {
		return Caller{}, err
	}
	if pending && !allowPending {
		return Caller{}, fault.New(code.DevicePending, "This device waits for approval.")
	}
	if err := s.proofs.Spend(verified, dpop.AtRequest); err != nil {
		return Caller{}, err
	}
	return s.personOf(access, pending), nil
}

func (s *Service) personOf(access token.Access, pending bool) Caller {
	return Caller{
		Caller: authz.Caller{
			Principal: access.Principal, Kind: wire.KindUser, Device: access.Device, SignIn: access.SignIn,
			AuthTime: access.AuthTime, StepUpMaxAge: s.Auth.StepUpMaxAge,
		},
		ExpiresAt: access.ExpiresAt, Thumbprint: access.Thumbprint, Pending: pending,
	}
}

// verifyProof is dpop.Verify, with a word for a proof that is missing.
func (s *Service) verifyProof(proof string, want dpop.Want) (dpop.Proof, error) {
	if proof == "" {
		return dpop.Proof{}, fault.New(code.InvalidDPoPProof, "Send exactly one DPoP proof.")
	}
	return s.proofs.Verify(proof, want)
}

// admits answers whether the bearer of a token that was issued for a sign-in still has to be let in.
func (st standing) admits(found bool, access token.Access) (pending bool, err error) {
	switch {
	case !found, st.restored, st.user != access.Principal, st.device != access.Device:
		// After a restore nobody knows what the client still holds: it signs in again and keeps its data.
		return false, fault.New(code.InvalidToken, "This sign-in is not known any more. Sign in again.")
	case st.revoked:
		return false, revoked("This sign-in has ended.")
	case st.deviceDeleted, st.deviceState == wire.DeviceRevoked:
		return false, revoked("This device was revoked.")
	case st.thumbprint != access.Thumbprint, st.deviceKey != access.Thumbprint:
		return false, revoked("The device proves itself with another key now.")
	case st.person == wire.StatusPending, st.deviceState == wire.DevicePending:
		return true, nil
	case st.person != wire.StatusActive, st.deviceState != wire.DeviceActive:
		return false, revoked("This account is not active.")
	default:
		return false, nil
	}
}

func revoked(format string) error {
	return fault.New(code.InvalidToken, "%s", format).WithCause(errRevoked)
}

func (s *Service) readStanding(ctx context.Context, signIn string) (standing, bool, error) {
	var read standing
	var found bool
	err := s.DB.Read(ctx, func(tx storage.Tx) (err error) {
		var revokedAt, deletedAt *time.Time
		var reason, state, deviceKey *string
		found, err = tx.Get(
			`SELECT s.user_id, s.device_id, s.dpop_jkt, s.revoked_at, s.revoked_reason, d.state, d.dpop_jkt, d.deleted_at, p.status
			   FROM sign_ins s JOIN devices d ON d.id = s.device_id JOIN principals p ON p.id = s.user_id WHERE s.id = $1`,
			[]any{signIn}, &read.user, &read.device, &read.thumbprint, &revokedAt, &reason, &state, &deviceKey, &deletedAt, &read.person)
		read.revoked, read.deviceDeleted = revokedAt != nil, deletedAt != nil
		read.restored = read.revoked && orEmpty(reason) == endedByRestore
		read.deviceState, read.deviceKey = wire.DeviceState(orEmpty(state)), orEmpty(deviceKey)
		return err
	})
	if err != nil {
		return standing{}, false, fmt.Errorf("look up sign-in: %w", err)
	}
	return read, found, nil
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
