package sessions

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/session"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func (a *API) listShares(c *call) (reply, error) {
	shares, err := a.Sessions.Shares(c.Context(), c.by, c.PathValue("id"))
	return ok(map[string]any{"shares": shares}), err
}

func (a *API) addShare(c *call) (reply, error) {
	in := session.NewShare{Role: wire.RoleViewer, ExpiresAt: c.form.moment("expires_at")}
	c.form.require("principal_type", 0, wire.MaxText)
	if kind := choice(c.form, "principal_type", wire.PrincipalUser, wire.PrincipalOrg, wire.PrincipalLink); kind != nil {
		in.PrincipalType = *kind
	}
	if role := choice(c.form, "role", wire.RoleViewer, wire.RoleEditor, wire.RoleOwner); role != nil {
		in.Role = *role
	}
	if id := c.form.text("principal_id", 1, wire.MaxID); id != nil {
		in.PrincipalID = *id
	}
	if email := c.form.text("email", 1, maxEmail); email != nil {
		in.Email = *email
	}
	checkPrincipal(c.form, in)
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	share, err := a.Sessions.AddShare(c.Context(), c.by, c.PathValue("id"), in)
	return reply{status: http.StatusCreated, body: share}, err
}

// maxEmail is the longest address (RFC 5321 section 4.5.3.1).
const maxEmail = 320

// checkPrincipal says which of principal_id and email go with the type of a share (SS-SHR-1).
func checkPrincipal(f *form, in session.NewShare) {
	switch in.PrincipalType {
	case wire.PrincipalLink:
		if in.PrincipalID != "" {
			f.badf("principal_id", "must not be given for a link")
		}
		if in.Email != "" {
			f.badf("email", "must not be given for a link")
		}
	case wire.PrincipalOrg:
		if in.PrincipalID == "" {
			f.badf("principal_id", "is required")
		}
		if in.Email != "" {
			f.badf("email", "must not be given for an org")
		}
	case wire.PrincipalUser:
		if (in.PrincipalID == "") == (in.Email == "") {
			f.badf("principal_id", "or email is required, not both")
		}
	default: // named already
	}
}

func (a *API) removeShare(c *call) (reply, error) {
	id, err := a.Sessions.RemoveShare(c.Context(), c.by, c.PathValue("id"), c.PathValue("share"))
	return ok(deletion{Deleted: true, ID: id}), err
}

func (a *API) listDevices(c *call) (reply, error) {
	devices, err := a.Identity.ListDevices(c.Context(), c.by.UserID)
	return ok(map[string]any{"devices": devices}), err
}

func (a *API) patchDevice(c *call) (reply, error) {
	patch := identity.DevicePatch{
		SetPushToken: c.form.has("push_token"), PushToken: c.form.text("push_token", wire.MinPushToken, wire.MaxPushToken),
	}
	if patch.PushToken != nil && !validPushToken(*patch.PushToken) {
		c.form.badf("push_token", "must be printable ASCII")
	}
	if c.form.has("capabilities") {
		patch.Capabilities = c.form.capabilities()
	}
	if !patch.SetPushToken && !c.form.has("capabilities") {
		c.form.badf("push_token", "or capabilities is required")
	}
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	device, err := a.Identity.PatchDevice(c.Context(), c.by.UserID, c.PathValue("device"), patch)
	return ok(device), err
}

// capabilities reads the free list of what a device can do (SS-OBJ-2).
func (f *form) capabilities() *[]string {
	elements, valid := f.list("capabilities", 0, wire.MaxCapabilities)
	if !valid {
		return nil
	}
	list := make([]string, 0, len(elements))
	for i, element := range elements {
		one := &form{problems: f.problems, top: "capabilities", fields: map[string]jsontext.Value{"": element}}
		if text := one.text("", 1, wire.MaxCapability); text != nil {
			list = append(list, *text)
		} else if element.Kind() != '"' {
			f.badf("capabilities", "[%d] must be a string", i)
		}
	}
	return &list
}

func (a *API) deleteDevice(c *call) (reply, error) {
	id := c.PathValue("device")
	principal := identity.Principal{UserID: c.by.UserID, KeyID: c.by.KeyID}
	_, err := a.Identity.DeleteDevice(c.Context(), principal, c.by.DeviceID, id)
	return ok(deletion{Deleted: true, ID: id}), err
}

func (a *API) createOrg(c *call) (reply, error) {
	name := c.form.require("name", 1, wire.MaxOrgName)
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	org, err := a.Sessions.CreateOrg(c.Context(), c.by, name)
	return reply{status: http.StatusCreated, body: org}, err
}

func (a *API) listOrgs(c *call) (reply, error) {
	orgs, err := a.Sessions.Orgs(c.Context(), c.by)
	return ok(map[string]any{"orgs": orgs}), err
}

func (a *API) listMembers(c *call) (reply, error) {
	org := c.PathValue("org")
	members, err := a.Sessions.Members(c.Context(), c.by, org)
	return ok(map[string]any{"org_id": org, "members": members}), err
}

func (a *API) addMember(c *call) (reply, error) {
	in := session.NewMember{Role: wire.OrgMember}
	if id := c.form.text("user_id", 1, wire.MaxID); id != nil {
		in.UserID = *id
	}
	if email := c.form.text("email", 1, maxEmail); email != nil {
		in.Email = *email
	}
	if (in.UserID == "") == (in.Email == "") {
		c.form.badf("user_id", "or email is required, not both")
	}
	if role := choice(c.form, "role", wire.OrgMember, wire.OrgAdmin, wire.OrgOwner); role != nil {
		in.Role = *role
	}
	if err := c.form.err(); err != nil {
		return reply{}, err
	}
	member, err := a.Sessions.AddMember(c.Context(), c.by, c.PathValue("org"), in)
	return reply{status: http.StatusCreated, body: struct {
		OrgID  string       `json:"org_id"`
		UserID string       `json:"user_id"`
		Role   wire.OrgRole `json:"role"`
	}{c.PathValue("org"), member.UserID, member.Role}}, err
}

func (a *API) removeMember(c *call) (reply, error) {
	org, user := c.PathValue("org"), c.PathValue("user")
	err := a.Sessions.RemoveMember(c.Context(), c.by, org, user)
	return ok(struct {
		Deleted bool   `json:"deleted"`
		OrgID   string `json:"org_id"`
		UserID  string `json:"user_id"`
	}{true, org, user}), err
}
