package sessions

import (
	"context"
	"net/http"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Devices answers the caller's devices, the latest seen first (SS-DVC-1).
func (c *Client) Devices(ctx context.Context) ([]wire.Device, error) {
	listed, _, err := fetch[struct {
		Devices []wire.Device `json:"devices"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/devices", repeat: true})
	return listed.Devices, err
}

// DevicePatch changes a device; nil fields stay as they are, and one at least must be set (SS-DVC-1).
type DevicePatch struct {
	PushToken      *string
	ClearPushToken bool      // forgets the token; wins over PushToken
	Capabilities   *[]string // at most 64 of 1 to 64 characters
}

// MarshalJSON writes only what changes.
func (p DevicePatch) MarshalJSON() ([]byte, error) {
	fields := map[string]any{}
	if p.PushToken != nil {
		fields["push_token"] = *p.PushToken
	}
	if p.ClearPushToken {
		fields["push_token"] = nil
	}
	if p.Capabilities != nil {
		fields["capabilities"] = append([]string{}, *p.Capabilities...)
	}
	return httpkit.Encode(fields)
}

// PatchDevice changes one of the caller's devices.
func (c *Client) PatchDevice(ctx context.Context, deviceID string, patch DevicePatch) (wire.Device, error) {
	return fetchAt[wire.Device](ctx, c, call{method: http.MethodPatch, body: patch}, "/v1/devices/", deviceID)
}

// DeleteDevice removes one of the caller's devices: its lease is released, its streams end (SS-DVC-1).
func (c *Client) DeleteDevice(ctx context.Context, deviceID string) (Deleted, error) {
	return fetchAt[Deleted](ctx, c, call{method: http.MethodDelete}, "/v1/devices/", deviceID)
}

// SetNotify chooses what the caller is pushed about in a session, on every device; viewer and up. It is an extension
// of cairn.
func (c *Client) SetNotify(ctx context.Context, ref string, notify wire.Notify) (wire.NotifySetting, error) {
	return fetchAt[wire.NotifySetting](ctx, c, call{
		method: http.MethodPut, body: map[string]wire.Notify{"notify": notify}, repeat: true,
	}, "/v1/sessions/", ref, "/notify")
}

// NewShare gives a role on a session (SS-SHR-1).
type NewShare struct {
	PrincipalType wire.PrincipalType `json:"principal_type"`
	PrincipalID   string             `json:"principal_id,omitempty"` // of a user or an org; never for a link
	Email         string             `json:"email,omitempty"`        // of a user, instead of PrincipalID
	Role          wire.Role          `json:"role,omitempty"`         // default viewer
	ExpiresAt     *wire.Time         `json:"expires_at,omitempty"`
}

// Shares answers a session's shares, oldest first; for owners.
func (c *Client) Shares(ctx context.Context, ref string) ([]wire.Share, error) {
	listed, err := fetchAt[struct {
		Shares []wire.Share `json:"shares"`
	}](ctx, c, call{method: http.MethodGet, repeat: true}, "/v1/sessions/", ref, "/shares")
	return listed.Shares, err
}

// AddShare shares a session; for owners. A link share's Token is answered here and never again.
func (c *Client) AddShare(ctx context.Context, ref string, share NewShare) (wire.Share, error) {
	return fetchAt[wire.Share](ctx, c, call{method: http.MethodPost, body: share}, "/v1/sessions/", ref, "/shares")
}

// RemoveShare ends a share; for owners, and for the user it was given to.
func (c *Client) RemoveShare(ctx context.Context, ref, shareID string) (Deleted, error) {
	return fetchAt[Deleted](ctx, c, call{method: http.MethodDelete}, "/v1/sessions/", ref, "/shares/", shareID)
}

// Orgs answers the caller's organisations, each with the caller's role (SS-ORG-1).
func (c *Client) Orgs(ctx context.Context) ([]wire.Org, error) {
	listed, _, err := fetch[struct {
		Orgs []wire.Org `json:"orgs"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/orgs", repeat: true})
	return listed.Orgs, err
}

// CreateOrg makes an organisation that the caller owns; its name has 1 to 200 characters.
func (c *Client) CreateOrg(ctx context.Context, name string) (wire.Org, error) {
	org, _, err := fetch[wire.Org](ctx, c, call{
		method: http.MethodPost, path: "/v1/orgs", body: map[string]string{"name": name},
	})
	return org, err
}

// OrgMembers answers an organisation's members in order of joining; for its members.
func (c *Client) OrgMembers(ctx context.Context, orgID string) ([]wire.Membership, error) {
	listed, err := fetchAt[struct {
		Members []wire.Membership `json:"members"`
	}](ctx, c, call{method: http.MethodGet, repeat: true}, "/v1/orgs/", orgID, "/members")
	return listed.Members, err
}

// NewMember is a user to add to an organisation: exactly one of UserID and Email.
type NewMember struct {
	UserID string       `json:"user_id,omitempty"`
	Email  string       `json:"email,omitempty"`
	Role   wire.OrgRole `json:"role,omitempty"` // default member
}

// AddedMember answers AddOrgMember.
type AddedMember struct {
	OrgID  string       `json:"org_id"`
	UserID string       `json:"user_id"`
	Role   wire.OrgRole `json:"role"`
}

// AddOrgMember adds a member or changes its role; for owner and admins.
func (c *Client) AddOrgMember(ctx context.Context, orgID string, member NewMember) (AddedMember, error) {
	return fetchAt[AddedMember](ctx, c, call{method: http.MethodPost, body: member}, "/v1/orgs/", orgID, "/members")
}

// RemovedMember answers RemoveOrgMember.
type RemovedMember struct {
	Deleted bool   `json:"deleted"`
	OrgID   string `json:"org_id"`
	UserID  string `json:"user_id"`
}

// RemoveOrgMember takes a member out; for owner and admins. The org's owner stays, always.
func (c *Client) RemoveOrgMember(ctx context.Context, orgID, userID string) (RemovedMember, error) {
	return fetchAt[RemovedMember](ctx, c, call{method: http.MethodDelete}, "/v1/orgs/", orgID, "/members/", userID)
}
