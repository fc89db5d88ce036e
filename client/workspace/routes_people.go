package workspace

import (
	"context"
	"maps"
	"net/http"
	"net/url"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// MakeLoginCode makes a single-use code that signs in another device of the caller; with step-up.
func (c *Client) MakeLoginCode(ctx context.Context) (wire.LoginCode, error) {
	return write[wire.LoginCode](ctx, c, http.MethodPost, empty{}, 0, "/login-codes")
}

// SetPassword sets the caller's own password; with step-up.
func (c *Client) SetPassword(ctx context.Context, password string) error {
	return do(ctx, c, http.MethodPut, map[string]string{"password": password}, "/me/password")
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

// PatchPrincipal changes how a principal is called; owner of the instance, with step-up.
func (c *Client) PatchPrincipal(
	ctx context.Context, kind wire.Kind, id string, change wire.PatchPrincipal, ifMatch int64,
) (wire.Principal, error) {
	return write[wire.Principal](ctx, c, http.MethodPatch, change, ifMatch, "/"+plural(kind)+"/", id)
}

// DisablePrincipal ends all that a principal may do; owner of the instance, with step-up.
func (c *Client) DisablePrincipal(ctx context.Context, kind wire.Kind, id string) (wire.Principal, error) {
	return write[wire.Principal](ctx, c, http.MethodPost, empty{}, 0, "/"+plural(kind)+"/", id, "/disable")
}

// EnablePrincipal lets a principal act again, or for the first time.
func (c *Client) EnablePrincipal(ctx context.Context, kind wire.Kind, id string) (wire.Principal, error) {
	return write[wire.Principal](ctx, c, http.MethodPost, empty{}, 0, "/"+plural(kind)+"/", id, "/enable")
}

// APITokens lists the tokens of an agent or app, the newest first.
func (c *Client) APITokens(ctx context.Context, kind wire.Kind, id string) (wire.Page[wire.APIToken], error) {
	return list[wire.APIToken](ctx, c, nil, "/"+plural(kind)+"/", id, "/tokens")
}

// CreateAPIToken makes a token of an agent or app. It is shown once: a repeat of the request answers without it.
func (c *Client) CreateAPIToken(ctx context.Context, kind wire.Kind, id string, made wire.NewToken) (wire.APITokenMade, error) {
	return write[wire.APITokenMade](ctx, c, http.MethodPost, made, 0, "/"+plural(kind)+"/", id, "/tokens")
}

// RevokeAPIToken ends a token at once.
func (c *Client) RevokeAPIToken(ctx context.Context, kind wire.Kind, id, token string) error {
	return do(ctx, c, http.MethodDelete, nil, "/"+plural(kind)+"/", id, "/tokens/", token)
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

// RenameGroup renames a group.
func (c *Client) RenameGroup(ctx context.Context, id, name string, ifMatch int64) (wire.Group, error) {
	return write[wire.Group](ctx, c, http.MethodPatch, wire.NewGroup{Name: name}, ifMatch, "/groups/", id)
}

// DeleteGroup deletes a group with its grants; with step-up.
func (c *Client) DeleteGroup(ctx context.Context, id string) error {
	return do(ctx, c, http.MethodDelete, nil, "/groups/", id)
}

// PutMember puts a principal into a group; with step-up.
func (c *Client) PutMember(ctx context.Context, group, principal string, member wire.PutMember) (wire.Group, error) {
	return write[wire.Group](ctx, c, http.MethodPut, member, 0, "/groups/", group, "/members/", principal)
}

// RemoveMember takes a principal out of a group; with step-up.
func (c *Client) RemoveMember(ctx context.Context, group, principal string) error {
	return do(ctx, c, http.MethodDelete, nil, "/groups/", group, "/members/", principal)
}

// Grants lists the grants in force on a target, or with the zero Target all; owner there.
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
	maps.Copy(query, filter)
	return list[T](ctx, c, query, "/audit")
}
