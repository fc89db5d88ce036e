package workspace

import (
	"context"
	"encoding/json"
	"net/http"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// ReadStates lists how far the caller has read.
func (c *Client) ReadStates(ctx context.Context, at Paging) (wire.Page[wire.ReadState], error) {
	return list[wire.ReadState](ctx, c, at.query(), "/read-states")
}

// ReadState answers one.
func (c *Client) ReadState(ctx context.Context, thread string) (wire.ReadState, error) {
	return read[wire.ReadState](ctx, c, nil, "/read-states/", thread)
}

// MarkRead moves a read state forward; never back.
func (c *Client) MarkRead(ctx context.Context, thread string, seq int64) (wire.ReadState, error) {
	return write[wire.ReadState](ctx, c, http.MethodPut, wire.PutReadState{LastReadSeq: seq}, 0, "/read-states/", thread)
}

// ResetRead sets that version of a read state, also back.
func (c *Client) ResetRead(ctx context.Context, thread string, seq, version int64) (wire.ReadState, error) {
	return write[wire.ReadState](ctx, c, http.MethodPost, wire.PutReadState{LastReadSeq: seq}, version, "/read-states/", thread, "/reset")
}

// Drafts lists the caller's drafts.
func (c *Client) Drafts(ctx context.Context, at Paging) (wire.Page[wire.Draft], error) {
	return list[wire.Draft](ctx, c, at.query(), "/drafts")
}

// Draft answers one.
func (c *Client) Draft(ctx context.Context, thread string) (wire.Draft, error) {
	return read[wire.Draft](ctx, c, nil, "/drafts/", thread)
}

// PutDraft saves a draft; an empty one is deleted.
func (c *Client) PutDraft(ctx context.Context, thread string, put wire.PutDraft) (wire.Draft, error) {
	return write[wire.Draft](ctx, c, http.MethodPut, put, 0, "/drafts/", thread)
}

// DeleteDraft deletes it.
func (c *Client) DeleteDraft(ctx context.Context, thread string) error {
	return do(ctx, c, http.MethodDelete, nil, "/drafts/", thread)
}

// Settings lists the caller's settings.
func (c *Client) Settings(ctx context.Context, at Paging) (wire.Page[wire.Setting], error) {
	return list[wire.Setting](ctx, c, at.query(), "/settings")
}

// Setting answers one.
func (c *Client) Setting(ctx context.Context, key string) (wire.Setting, error) {
	return read[wire.Setting](ctx, c, nil, "/settings/", key)
}

// PutSetting sets one to any JSON value.
func (c *Client) PutSetting(ctx context.Context, key string, value json.RawMessage) (wire.Setting, error) {
	return write[wire.Setting](ctx, c, http.MethodPut, wire.PutSetting{Value: value}, 0, "/settings/", key)
}

// DeleteSetting deletes it.
func (c *Client) DeleteSetting(ctx context.Context, key string) error {
	return do(ctx, c, http.MethodDelete, nil, "/settings/", key)
}

// Sidebar answers how the caller arranged a space.
func (c *Client) Sidebar(ctx context.Context, space string) (wire.Sidebar, error) {
	return read[wire.Sidebar](ctx, c, nil, "/spaces/", space, "/sidebar")
}

// PutSidebar saves it; state is any JSON.
func (c *Client) PutSidebar(ctx context.Context, space string, state json.RawMessage) (wire.Sidebar, error) {
	return write[wire.Sidebar](ctx, c, http.MethodPut, wire.PutSidebar{State: state}, 0, "/spaces/", space, "/sidebar")
}

// NotificationPrefs lists what the caller wants to be told about.
func (c *Client) NotificationPrefs(ctx context.Context, at Paging) (wire.Page[wire.NotificationPref], error) {
	return list[wire.NotificationPref](ctx, c, at.query(), "/notification-prefs")
}

// PutNotificationPref sets it for a space, channel or thread.
func (c *Client) PutNotificationPref(ctx context.Context, kind, id string, put wire.PutNotificationPref) (wire.NotificationPref, error) {
	return write[wire.NotificationPref](ctx, c, http.MethodPut, put, 0, "/notification-prefs/", kind, "/", id)
}

// QuietHours answers when the caller does not want to be told; not_found when there are none.
func (c *Client) QuietHours(ctx context.Context) (wire.QuietHours, error) {
	return read[wire.QuietHours](ctx, c, nil, "/quiet-hours")
}

// PutQuietHours sets them.
func (c *Client) PutQuietHours(ctx context.Context, put wire.PutQuietHours) (wire.QuietHours, error) {
	return write[wire.QuietHours](ctx, c, http.MethodPut, put, 0, "/quiet-hours")
}
