package sessions

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Deleted answers a deletion.
type Deleted struct {
	Deleted bool   `json:"deleted"`
	ID      string `json:"id"`
}

// NewSession asks for a session. All fields are optional (SS-SES-1).
type NewSession struct {
	// SessionKey is the caller's own name for it, up to 256 characters; default a random UUID.
	SessionKey string `json:"session_key,omitempty"`
	Title      string `json:"title,omitempty"` // up to 500 characters
	// E2E announces sealed payloads. Titles and controls stay plain text: the protocol has no place
	// to seal them.
	E2E bool `json:"e2e,omitempty"`
}

// CreatedSession is a session and whether the call made it.
type CreatedSession struct {
	wire.Session
	New bool // false: it existed and was left as it is
}

// CreateSession makes a session, or answers the existing one with this key (SS-SES-1). With a SessionKey
// it is safe to call again.
func (c *Client) CreateSession(ctx context.Context, asked NewSession) (CreatedSession, error) {
	session, status, err := fetch[wire.Session](ctx, c, call{
		method: http.MethodPost, path: "/v1/sessions", body: asked,
	})
	return CreatedSession{Session: session, New: status == http.StatusCreated}, err
}

// ListOptions narrows ListSessions.
type ListOptions struct {
	Limit    int  // of each of the two lists, own and shared; default 50, at most 200
	Archived bool // with archived sessions
}

// ListSessions answers the caller's own sessions, then those shared by user and org, newest activity
// first (SS-SES-2).
func (c *Client) ListSessions(ctx context.Context, o ListOptions) ([]wire.ListedSession, error) {
	query := url.Values{"v": {"2"}}
	setNumber(query, "limit", int64(o.Limit))
	setFlag(query, "archived", o.Archived)
	listed, _, err := fetch[struct {
		Sessions []wire.ListedSession `json:"sessions"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/sessions", query: query, repeat: true})
	return listed.Sessions, err
}

// SharedWithMe answers the sessions others shared with the caller, at most 200 (SS-SES-3).
func (c *Client) SharedWithMe(ctx context.Context, archived bool) ([]wire.SharedSession, error) {
	query := url.Values{}
	setFlag(query, "archived", archived)
	listed, _, err := fetch[struct {
		Sessions []wire.SharedSession `json:"sessions"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/sessions/shared-with-me", query: query, repeat: true})
	return listed.Sessions, err
}

// GetSession answers a session with role, members, lease and presence (SS-SES-4). ref is its id or a
// session key, here and in every method below (SS-REF-1).
func (c *Client) GetSession(ctx context.Context, ref string) (wire.SessionDetail, error) {
	return fetchAt[wire.SessionDetail](ctx, c, call{
		method: http.MethodGet, query: url.Values{"v": {"2"}}, repeat: true,
	}, "/v1/sessions/", ref)
}

// SessionPatch changes a session; nil fields stay as they are, and one at least must be set (SS-SES-5).
type SessionPatch struct {
	Title      *string
	ClearTitle bool // the title becomes null; wins over Title
	Archived   *bool
}

// MarshalJSON writes only what changes.
func (p SessionPatch) MarshalJSON() ([]byte, error) {
	fields := map[string]any{}
	if p.Title != nil {
		fields["title"] = *p.Title
	}
	if p.ClearTitle {
		fields["title"] = nil
	}
	if p.Archived != nil {
		fields["archived"] = *p.Archived
	}
	return httpkit.Encode(fields)
}

// PatchSession changes title or archived; for owners (SS-SES-5).
func (c *Client) PatchSession(ctx context.Context, ref string, patch SessionPatch) (wire.Session, error) {
	return fetchAt[wire.Session](ctx, c, call{method: http.MethodPatch, body: patch}, "/v1/sessions/", ref)
}

// DeleteSession removes a session with everything in it; for owners (SS-SES-5).
func (c *Client) DeleteSession(ctx context.Context, ref string) (Deleted, error) {
	return fetchAt[Deleted](ctx, c, call{method: http.MethodDelete}, "/v1/sessions/", ref)
}

// Audit answers a session's audit, also after the session is gone; for its owner (SS-AUD-1).
func (c *Client) Audit(ctx context.Context, sessionID string) ([]wire.AuditEntry, error) {
	listed, _, err := fetch[struct {
		Entries []wire.AuditEntry `json:"audit"`
	}](ctx, c, call{
		method: http.MethodGet, path: "/v1/audit", query: url.Values{"session_id": {sessionID}}, repeat: true,
	})
	return listed.Entries, err
}

// fetchAt makes the call at a path of fixed parts and variables, in turn.
func fetchAt[T any](ctx context.Context, c *Client, made call, parts ...string) (T, error) {
	var err error
	if made.path, err = httpkit.Path(parts...); err != nil {
		var none T
		return none, err
	}
	value, _, err := fetch[T](ctx, c, made)
	return value, err
}

func setNumber(query url.Values, name string, value int64) {
	if value > 0 {
		query.Set(name, strconv.FormatInt(value, 10))
	}
}

func setFlag(query url.Values, name string, value bool) {
	if value {
		query.Set(name, "1")
	}
}
