package workspace

import (
	"context"
	"net/http"
	"net/url"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// MakeLoginCode makes a single-use code that signs in another device of the caller; with step-up.
func (c *Client) MakeLoginCode(ctx context.Context) (wire.LoginCode, error) {
	return write[wire.LoginCode](ctx, c, http.MethodPost, empty{}, 0, "/auth/login-codes")
}

// Devices lists the caller's devices.
func (c *Client) Devices(ctx context.Context, at Paging) (wire.Page[wire.Device], error) {
	return list[wire.Device](ctx, c, at.query(), "/devices")
}

// Device answers a device of the caller; a pending one reaches itself (WS-ID-3).
func (c *Client) Device(ctx context.Context, id string) (wire.Device, error) {
	return read[wire.Device](ctx, c, nil, "/devices/", id)
}

// ApproveDevice lets a pending device in; with step-up.
func (c *Client) ApproveDevice(ctx context.Context, id string) (wire.Device, error) {
	return write[wire.Device](ctx, c, http.MethodPost, empty{}, 0, "/devices/", id, "/approve")
}

// RevokeDevice ends a device's sign-ins and closes its connections; with step-up.
func (c *Client) RevokeDevice(ctx context.Context, id string) error {
	return do(ctx, c, http.MethodDelete, nil, "/devices/", id)
}

// Principals lists the principals of a kind that the caller sees (WS-AZ-7).
func (c *Client) Principals(ctx context.Context, kind wire.Kind, at Paging) (wire.Page[wire.Principal], error) {
	return list[wire.Principal](ctx, c, at.query(), "/"+plural(kind))
}

// Principal answers one.
func (c *Client) Principal(ctx context.Context, kind wire.Kind, id string) (wire.Principal, error) {
	return read[wire.Principal](ctx, c, nil, "/"+plural(kind)+"/", id)
}

// CreatePrincipal makes a user, agent or app; owner of the instance, with step-up.
func (c *Client) CreatePrincipal(ctx context.Context, kind wire.Kind, made wire.NewPrincipal) (wire.Principal, error) {
	return write[wire.Principal](ctx, c, http.MethodPost, made, 0, "/"+plural(kind))
}

// DisablePrincipal ends all that a principal may do; owner of the instance, with step-up.
func (c *Client) DisablePrincipal(ctx context.Context, kind wire.Kind, id string) (wire.Principal, error) {
	return write[wire.Principal](ctx, c, http.MethodPost, empty{}, 0, "/"+plural(kind)+"/", id, "/disable")
}

func plural(kind wire.Kind) string {
	switch kind {
	case wire.KindAgent:
		return "agents"
	case wire.KindApp:
		return "apps"
	default:
		return "users"
	}
}

// Groups lists the groups; owner of the instance.
func (c *Client) Groups(ctx context.Context, at Paging) (wire.Page[wire.Group], error) {
	return list[wire.Group](ctx, c, at.query(), "/groups")
}

// Group answers one.
func (c *Client) Group(ctx context.Context, id string) (wire.Group, error) {
	return read[wire.Group](ctx, c, nil, "/groups/", id)
}

// CreateGroup makes a group; with step-up.
func (c *Client) CreateGroup(ctx context.Context, name string) (wire.Group, error) {
	return write[wire.Group](ctx, c, http.MethodPost, wire.NewGroup{Name: name}, 0, "/groups")
}

// PutMember puts a principal into a group; with step-up.
func (c *Client) PutMember(ctx context.Context, group, principal string, member wire.PutMember) (wire.GroupMember, error) {
	return write[wire.GroupMember](ctx, c, http.MethodPut, member, 0, "/groups/", group, "/members/", principal)
}

// RemoveMember takes a principal out of a group; with step-up.
func (c *Client) RemoveMember(ctx context.Context, group, principal string) error {
	return do(ctx, c, http.MethodDelete, nil, "/groups/", group, "/members/", principal)
}

// Grants lists the grants on a target, or with the zero Target all; owner there.
func (c *Client) Grants(ctx context.Context, on wire.Target, at Paging) (wire.Page[wire.Grant], error) {
	query := at.query()
	if on.Kind != "" {
		query.Set("target_kind", string(on.Kind))
	}
	if on.ID != "" {
		query.Set("target_id", on.ID)
	}
	return list[wire.Grant](ctx, c, query, "/grants")
}

// CreateGrant gives a subject a level on a target; with step-up.
func (c *Client) CreateGrant(ctx context.Context, made wire.NewGrant) (wire.Grant, error) {
	return write[wire.Grant](ctx, c, http.MethodPost, made, 0, "/grants")
}

// RevokeGrant ends a grant at once; with step-up.
func (c *Client) RevokeGrant(ctx context.Context, id string) (wire.Grant, error) {
	return write[wire.Grant](ctx, c, http.MethodPost, empty{}, 0, "/grants/", id, "/revoke")
}

// Audit lists what was done, as the server tells it, the newest first; owner of the instance. The rows are decoded into T.
func Audit[T any](ctx context.Context, c *Client, filter url.Values, at Paging) (wire.Page[T], error) {
	query := at.query()
	for name, values := range filter {
		query[name] = values
	}
	return list[T](ctx, c, query, "/audit")
}
