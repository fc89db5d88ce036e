package workspace

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Paging says which part of a list is wanted. The zero value is the first page as long as the server likes.
type Paging struct {
	Cursor string // NextCursor of the page before
	Limit  int    // the server cuts it to 100
}

func (p Paging) query() url.Values {
	query := url.Values{}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	if p.Limit > 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	return query
}

// All reads the pages of a list until its end, or until it has most items; 0 is no bound.
func All[T any](ctx context.Context, most int, list func(context.Context, Paging) (wire.Page[T], error)) ([]T, error) {
	var all []T
	for at := (Paging{Limit: 100}); ; {
		page, err := list(ctx, at)
		if err != nil {
			return all, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" || page.NextCursor == at.Cursor || most > 0 && len(all) >= most {
			return all, nil
		}
		at.Cursor = page.NextCursor
	}
}

// read gets what stands at a path.
func read[T any](ctx context.Context, c *Client, query url.Values, parts ...string) (T, error) {
	at, err := httpkit.Path(parts...)
	if err != nil {
		var none T
		return none, err
	}
	return fetch[T](ctx, c, Call{Method: http.MethodGet, Path: prefix + at, Query: query})
}

func list[T any](ctx context.Context, c *Client, query url.Values, parts ...string) (wire.Page[T], error) {
	return read[wire.Page[T]](ctx, c, query, parts...)
}

// write is a change with an answer, under a new Idempotency-Key.
func write[T any](ctx context.Context, c *Client, method string, body any, ifMatch int64, parts ...string) (T, error) {
	at, err := httpkit.Path(parts...)
	if err != nil {
		var none T
		return none, err
	}
	return fetch[T](ctx, c, Call{Method: method, Path: prefix + at, Body: body, Key: NewID(), IfMatch: ifMatch})
}

// do is a change without an answer, under a new Idempotency-Key.
func do(ctx context.Context, c *Client, method string, body any, parts ...string) error {
	at, err := httpkit.Path(parts...)
	if err != nil {
		return err
	}
	_, err = c.perform(ctx, Call{Method: method, Path: prefix + at, Body: body, Key: NewID()})
	return err
}

// empty is the body {}.
type empty struct{}

// Discover answers what there is to know before signing in.
func (c *Client) Discover(ctx context.Context) (wire.Discovery, error) {
	return fetch[wire.Discovery](ctx, c, Call{Method: http.MethodGet, Path: prefix, public: true})
}

// Me answers who calls, and what for.
func (c *Client) Me(ctx context.Context) (wire.Me, error) { return read[wire.Me](ctx, c, nil, "/me") }

// Snapshot answers the structure, all of it as of one place in the log (ES-7.3).
func (c *Client) Snapshot(ctx context.Context) (wire.Snapshot, error) {
	return read[wire.Snapshot](ctx, c, nil, "/sync/snapshot")
}

// Events answers a page of the log after a place (ES-7.4). Epoch may be "". When the place cannot be caught
// up from, it fails with resync_required and a reason. A limit of 0 is the server's.
func (c *Client) Events(ctx context.Context, after int64, epoch string, limit int) (wire.Events, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if epoch != "" {
		query.Set("epoch", epoch)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return read[wire.Events](ctx, c, query, "/events")
}
