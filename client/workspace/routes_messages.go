package workspace

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Range says which messages of a thread are wanted, by thread_seq. The zero value is the newest 50.
type Range struct {
	Before int64 // the last ones below it
	After  int64 // the first ones above it; From is set when it is meant, so that 0 is the beginning
	Around int64 // those on both sides of it
	From   bool  // After counts, also 0
	Limit  int   // at most 100; 0 is the server's
}

func (r Range) query() url.Values {
	query := url.Values{}
	set := func(name string, value int64, meant bool) {
		if meant {
			query.Set(name, strconv.FormatInt(value, 10))
		}
	}
	set("before", r.Before, r.Before > 0)
	set("after", r.After, r.After > 0 || r.From)
	set("around", r.Around, r.Around > 0)
	set("limit", int64(r.Limit), r.Limit > 0)
	return query
}

// Messages answers part of a thread, ascending by thread_seq.
func (c *Client) Messages(ctx context.Context, thread string, part Range) (wire.Messages, error) {
	return read[wire.Messages](ctx, c, part.query(), "/threads/", thread, "/messages")
}

// SendMessage sends a message. Its client_msg_id is made when it is "". An Outbox sends it also when this
// device or the server is away.
func (c *Client) SendMessage(ctx context.Context, thread string, made wire.NewMessage) (wire.Message, error) {
	if made.ClientMsgID == "" {
		made.ClientMsgID = NewID()
	}
	at, err := httpkit.Path("/threads/", thread, "/messages")
	if err != nil {
		return wire.Message{}, err
	}
	return fetch[wire.Message](ctx, c, Call{Method: http.MethodPost, Path: prefix + at, Body: made})
}

// Message answers one.
func (c *Client) Message(ctx context.Context, id string) (wire.Message, error) {
	return read[wire.Message](ctx, c, nil, "/messages/", id)
}

// EditMessage changes the wording of that version of a message. When it has another version it fails with
// version_conflict, and Current answers the message as it is (ES-13.3).
func (c *Client) EditMessage(ctx context.Context, id, content string, version int64) (wire.Message, error) {
	return write[wire.Message](ctx, c, http.MethodPatch, wire.EditMessage{ContentMD: content}, version, "/messages/", id)
}

// DeleteMessage deletes a message; also one that is deleted already.
func (c *Client) DeleteMessage(ctx context.Context, id string) error {
	return do(ctx, c, http.MethodDelete, nil, "/messages/", id)
}

// Revisions lists the wordings of a message.
func (c *Client) Revisions(ctx context.Context, id string, at Paging) (wire.Page[wire.Revision], error) {
	return list[wire.Revision](ctx, c, at.query(), "/messages/", id, "/revisions")
}

// React adds the caller's reaction.
func (c *Client) React(ctx context.Context, message, emoji string) error {
	return do(ctx, c, http.MethodPut, nil, "/messages/", message, "/reactions/", emoji)
}

// Unreact takes it back.
func (c *Client) Unreact(ctx context.Context, message, emoji string) error {
	return do(ctx, c, http.MethodDelete, nil, "/messages/", message, "/reactions/", emoji)
}

// Pins lists the pinned messages of a thread.
func (c *Client) Pins(ctx context.Context, thread string, at Paging) (wire.Page[wire.Message], error) {
	return list[wire.Message](ctx, c, at.query(), "/threads/", thread, "/pins")
}

// Pin pins a message of a thread.
func (c *Client) Pin(ctx context.Context, thread, message string) error {
	return do(ctx, c, http.MethodPut, nil, "/threads/", thread, "/pins/", message)
}

// Unpin undoes Pin.
func (c *Client) Unpin(ctx context.Context, thread, message string) error {
	return do(ctx, c, http.MethodDelete, nil, "/threads/", thread, "/pins/", message)
}

// Search answers the messages the caller may read that match.
func (c *Client) Search(ctx context.Context, text string, at Paging) (wire.Page[wire.Message], error) {
	query := at.query()
	query.Set("q", text)
	return list[wire.Message](ctx, c, query, "/search")
}

// StartImport begins an import, or goes on with the one of the same source (ES-15.8).
func (c *Client) StartImport(ctx context.Context, made wire.NewImport) (wire.Import, error) {
	return write[wire.Import](ctx, c, http.MethodPost, made, 0, "/imports")
}

// Imports lists the imports into spaces the caller manages.
func (c *Client) Imports(ctx context.Context, at Paging) (wire.Page[wire.Import], error) {
	return list[wire.Import](ctx, c, at.query(), "/imports")
}

// Import answers one.
func (c *Client) Import(ctx context.Context, id string) (wire.Import, error) {
	return read[wire.Import](ctx, c, nil, "/imports/", id)
}

// ImportBatch applies part of one thread. What was applied before is skipped.
func (c *Client) ImportBatch(ctx context.Context, id string, batch wire.ImportBatch) (wire.ImportReceipt, error) {
	return write[wire.ImportReceipt](ctx, c, http.MethodPost, batch, 0, "/imports/", id, "/batches")
}

// FinishImport marks an import done.
func (c *Client) FinishImport(ctx context.Context, id string) (wire.Import, error) {
	return write[wire.Import](ctx, c, http.MethodPost, empty{}, 0, "/imports/", id, "/finish")
}
