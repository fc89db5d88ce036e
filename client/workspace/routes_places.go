package workspace

import (
	"context"
	"net/http"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Methods that take ifMatch change only that version of the object and fail with version_conflict
// otherwise; 0 changes whatever there is.

// Spaces lists the spaces the caller sees.
func (c *Client) Spaces(ctx context.Context, at Paging) (wire.Page[wire.Space], error) {
	return list[wire.Space](ctx, c, at.query(), "/spaces")
}

// Space answers one.
func (c *Client) Space(ctx context.Context, id string) (wire.Space, error) {
	return read[wire.Space](ctx, c, nil, "/spaces/", id)
}

// CreateSpace makes a space, which the caller then owns.
func (c *Client) CreateSpace(ctx context.Context, name string) (wire.Space, error) {
	return write[wire.Space](ctx, c, http.MethodPost, wire.NewSpace{Name: name}, 0, "/spaces")
}

// PatchSpace changes a space.
func (c *Client) PatchSpace(ctx context.Context, id string, change wire.PatchSpace, ifMatch int64) (wire.Space, error) {
	return write[wire.Space](ctx, c, http.MethodPatch, change, ifMatch, "/spaces/", id)
}

// ArchiveSpace makes a space read-only.
func (c *Client) ArchiveSpace(ctx context.Context, id string) (wire.Space, error) {
	return write[wire.Space](ctx, c, http.MethodPost, empty{}, 0, "/spaces/", id, "/archive")
}

// UnarchiveSpace undoes ArchiveSpace.
func (c *Client) UnarchiveSpace(ctx context.Context, id string) (wire.Space, error) {
	return write[wire.Space](ctx, c, http.MethodPost, empty{}, 0, "/spaces/", id, "/unarchive")
}

// Channels lists the channels the caller sees, of one space or with "" of all.
func (c *Client) Channels(ctx context.Context, space string, at Paging) (wire.Page[wire.Channel], error) {
	query := at.query()
	if space != "" {
		query.Set("space_id", space)
	}
	return list[wire.Channel](ctx, c, query, "/channels")
}

// Channel answers one.
func (c *Client) Channel(ctx context.Context, id string) (wire.Channel, error) {
	return read[wire.Channel](ctx, c, nil, "/channels/", id)
}

// CreateChannel makes a channel.
func (c *Client) CreateChannel(ctx context.Context, made wire.NewChannel) (wire.Channel, error) {
	return write[wire.Channel](ctx, c, http.MethodPost, made, 0, "/channels")
}

// PatchChannel changes a channel.
func (c *Client) PatchChannel(ctx context.Context, id string, change wire.PatchChannel, ifMatch int64) (wire.Channel, error) {
	return write[wire.Channel](ctx, c, http.MethodPatch, change, ifMatch, "/channels/", id)
}

// ArchiveChannel makes a channel read-only.
func (c *Client) ArchiveChannel(ctx context.Context, id string) (wire.Channel, error) {
	return write[wire.Channel](ctx, c, http.MethodPost, empty{}, 0, "/channels/", id, "/archive")
}

// UnarchiveChannel undoes ArchiveChannel.
func (c *Client) UnarchiveChannel(ctx context.Context, id string) (wire.Channel, error) {
	return write[wire.Channel](ctx, c, http.MethodPost, empty{}, 0, "/channels/", id, "/unarchive")
}

// ChannelSettings answers what only those see who manage the channel.
func (c *Client) ChannelSettings(ctx context.Context, id string) (wire.ChannelSettings, error) {
	return read[wire.ChannelSettings](ctx, c, nil, "/channels/", id, "/settings")
}

// PutChannelSettings replaces them; ifMatch is their settings_version.
func (c *Client) PutChannelSettings(ctx context.Context, id string, put wire.PutSettings, ifMatch int64) (wire.ChannelSettings, error) {
	return write[wire.ChannelSettings](ctx, c, http.MethodPut, put, ifMatch, "/channels/", id, "/settings")
}

// Threads lists the threads of a channel.
func (c *Client) Threads(ctx context.Context, channel string, at Paging) (wire.Page[wire.Thread], error) {
	return list[wire.Thread](ctx, c, at.query(), "/channels/", channel, "/threads")
}

// Thread answers one.
func (c *Client) Thread(ctx context.Context, id string) (wire.Thread, error) {
	return read[wire.Thread](ctx, c, nil, "/threads/", id)
}

// StartThread starts a thread or post with its first message. Its client_msg_id is made when it is "".
func (c *Client) StartThread(ctx context.Context, channel string, made wire.NewThread) (wire.ThreadStarted, error) {
	if made.ClientMsgID == "" {
		made.ClientMsgID = NewID()
	}
	at, err := httpkit.Path("/channels/", channel, "/threads")
	if err != nil {
		return wire.ThreadStarted{}, err
	}
	return fetch[wire.ThreadStarted](ctx, c, Call{Method: http.MethodPost, Path: prefix + at, Body: made})
}

// PatchThread renames a thread.
func (c *Client) PatchThread(ctx context.Context, id string, change wire.PatchThread, ifMatch int64) (wire.Thread, error) {
	return write[wire.Thread](ctx, c, http.MethodPatch, change, ifMatch, "/threads/", id)
}

// CloseThread marks a thread done.
func (c *Client) CloseThread(ctx context.Context, id string) (wire.Thread, error) {
	return write[wire.Thread](ctx, c, http.MethodPost, empty{}, 0, "/threads/", id, "/done")
}

// ReopenThread opens a thread that is done.
func (c *Client) ReopenThread(ctx context.Context, id string) (wire.Thread, error) {
	return write[wire.Thread](ctx, c, http.MethodPost, empty{}, 0, "/threads/", id, "/reopen")
}

// MoveThread moves a thread to another channel; manage on both.
func (c *Client) MoveThread(ctx context.Context, id, channel string) (wire.Thread, error) {
	return write[wire.Thread](ctx, c, http.MethodPost, wire.MoveThread{ChannelID: channel}, 0, "/threads/", id, "/move")
}
