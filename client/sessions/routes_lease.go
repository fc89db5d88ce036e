package sessions

import (
	"context"
	"net/http"
	"net/url"
	"time"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// LeaseTerm is how long a claim or heartbeat is good for (SS-LEASE-1).
const LeaseTerm = 30 * time.Second

// Claim asks for the lease.
type Claim struct {
	DeviceID string `json:"device_id,omitempty"` // default the calling device
	Force    bool   `json:"force,omitempty"`     // also take a live lease from another device (SS-LEASE-3)
}

// ClaimLease takes a lease that is free, expired or already this device's; for owners (SS-LEASE-1). A live
// lease of another device is lease_held; see APIError.HolderDeviceID.
func (c *Client) ClaimLease(ctx context.Context, ref string, claim Claim) (wire.Lease, error) {
	return fetchAt[wire.Lease](ctx, c, call{method: http.MethodPost, body: claim}, "/v1/sessions/", ref, "/lease")
}

// HeartbeatLease prolongs the lease this device holds; lease_held when it does not any more
// (SS-LEASE-3, SS-LEASE-4).
func (c *Client) HeartbeatLease(ctx context.Context, ref string) (wire.Lease, error) {
	return fetchAt[wire.Lease](ctx, c, call{method: http.MethodPut}, "/v1/sessions/", ref, "/lease")
}

// ReleaseLease gives the lease back, and answers false when this device did not hold it.
func (c *Client) ReleaseLease(ctx context.Context, ref string) (released bool, err error) {
	answer, err := fetchAt[struct {
		Released bool `json:"released"`
	}](ctx, c, call{method: http.MethodDelete}, "/v1/sessions/", ref, "/lease")
	return answer.Released, err
}

// MaxInboxWait is the longest long poll of the inbox (SS-DSP-4).
const MaxInboxWait = 30 * time.Second

// InboxQuery says how to read the inbox.
type InboxQuery struct {
	Limit int // controls; default 200, at most 500
	// Wait lets the server answer as soon as something is there, at most 30 s, in whole seconds.
	Wait time.Duration
}

// Inbox answers every pending control targeted at the calling device over the user's unarchived sessions
// (SS-DSP-4).
func (c *Client) Inbox(ctx context.Context, q InboxQuery) (wire.Inbox, error) {
	query := url.Values{}
	setNumber(query, "limit", int64(q.Limit))
	setNumber(query, "wait", int64(min(q.Wait, MaxInboxWait)/time.Second))
	inbox, _, err := fetch[wire.Inbox](ctx, c, call{
		method: http.MethodGet, path: "/v1/devices/me/dispatch", query: query, repeat: true,
	})
	return inbox, err
}
