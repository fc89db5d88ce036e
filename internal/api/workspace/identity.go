package workspace

import (
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Password is a new password.
type Password struct {
	Password string `json:"password" maxLength:"1024" minLength:"8"`
}

func (a *API) identityRoutes() []Route {
	const tag, devices = "identity", Prefix + "/devices"
	return []Route{
		{
			Method: post, Path: Prefix + "/auth/token", Access: Public, Tag: tag, Unkeyed: true,
			Summary: "Sign in, refresh, or with session_id step up; needs a DPoP header", handler: taking(okay, a.token),
		},
		{
			Method: post, Path: Prefix + "/auth/logout", Access: Pending, Action: action.SelfWrite, Tag: tag, Unkeyed: true,
			Summary: "End the sign-in", handler: doingWith(a.logout),
		},
		{Method: get, Path: Prefix + "/me", Action: action.SelfRead, Tag: tag, Summary: "The caller, and what it sees", handler: giving(okay, a.me)},
		{
			Method: put, Path: Prefix + "/me/password", Action: action.DeviceManage, Tag: tag, Unkeyed: true,
			Summary: "Set one's own password; other sign-ins stay", handler: doingWith(a.putPassword),
		},
		{Method: get, Path: devices, Action: action.SelfRead, Tag: tag, Summary: "The caller's devices", handler: giving(okay, a.devices)},
		{
			Method: get, Path: devices + "/{id}", Access: Pending, Action: action.SelfRead, Tag: tag, Summary: "A device of the caller's",
			handler: giving(okay, a.device),
		},
		{
			Method: post, Path: devices + "/{id}/approve", Action: action.DeviceManage, Tag: tag, Summary: "Approve a device that waits",
			handler: taking(okay, a.approveDevice),
		},
		{
			Method: remove, Path: devices + "/{id}", Action: action.DeviceManage, Tag: tag, Summary: "Revoke a device for good",
			handler: doing(a.revokeDevice),
		},
		{
			Method: post, Path: Prefix + "/login-codes", Action: action.DeviceManage, Tag: tag, Unkeyed: true,
			Summary: "Make a code that signs the caller in once, on another device", handler: taking(created, a.createLoginCode),
		},
		{Method: get, Path: keysPath, Access: Public, Tag: tag, Summary: "The keys that verify tokens", handler: giving(okay, a.jwks)},
	}
}

func (a *API) token(c *call, in wire.TokenRequest) (wire.TokenAnswer, error) {
	// Whether it worked or not, the next proof needs a nonce.
	c.writer.Header().Set(wire.HeaderDPoPNonce, a.SignIn.Nonce())
	address := a.peers.Address(c.Request)
	if err := a.limits.login(&in, address); err != nil {
		return wire.TokenAnswer{}, err
	}
	return a.SignIn.Token(c.Context(), signin.TokenCall{
		Request: in, URL: urlOf(c.Request), DPoP: c.Header.Values(wire.HeaderDPoP), Address: address,
	})
}

func (a *API) logout(c *call, _ Nothing) error { return a.SignIn.Logout(c.Context(), c.by) }

func (a *API) me(c *call) (wire.Me, error) { return a.Identity.Me(c.Context(), c.by) }

func (a *API) putPassword(c *call, in Password) error {
	return a.SignIn.SetOwnPassword(c.Context(), c.by, in.Password)
}

// devices is one page: the 1 000 that were seen last.
func (a *API) devices(c *call) (wire.Page[wire.Device], error) {
	devices, err := a.Identity.WorkspaceDevices(c.Context(), c.by.Principal)
	if devices == nil {
		devices = []wire.Device{}
	}
	return wire.Page[wire.Device]{Items: devices}, err
}

func (a *API) device(c *call) (wire.Device, error) {
	if c.signedIn.Pending && c.id("id") != c.by.Device {
		return wire.Device{}, fault.New(code.DevicePending, "This device waits for approval and sees itself only.")
	}
	return a.Identity.WorkspaceDevice(c.Context(), c.by, c.id("id"))
}

func (a *API) approveDevice(c *call, _ Nothing) (wire.Device, error) {
	return a.Identity.ApproveDevice(c.Context(), c.by, c.id("id"))
}

func (a *API) revokeDevice(c *call) error {
	return a.Identity.RevokeDevice(c.Context(), c.by, c.id("id"))
}

func (a *API) createLoginCode(c *call, _ Nothing) (wire.LoginCode, error) {
	return a.SignIn.MakeOwnLoginCode(c.Context(), c.by)
}

// KeySet is a JSON Web Key Set (RFC 7517 section 5), of public keys.
type KeySet struct {
	Keys []json.RawMessage `json:"keys"`
}

func (a *API) jwks(c *call) (KeySet, error) {
	known, err := a.SignIn.JWKS(c.Context())
	if err != nil {
		return KeySet{}, err
	}
	set := KeySet{Keys: make([]json.RawMessage, len(known.Keys))}
	for i := range known.Keys {
		if set.Keys[i], err = known.Keys[i].MarshalJSON(); err != nil {
			return KeySet{}, fmt.Errorf("encode key: %w", err)
		}
	}
	c.writer.Header().Set("Cache-Control", "public, max-age=300")
	return set, nil
}
