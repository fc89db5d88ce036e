package sessions

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// MaxEventsPage is the most events one read answers (SS-EVT-1).
const MaxEventsPage = 1000

// EventsQuery says which part of the log to read (SS-EVT-1). Use one of After, Before and Tail.
type EventsQuery struct {
	After  int64 // events with a greater seq
	Before int64 // the events just before this seq, still ascending
	Tail   int   // the newest ones
	Limit  int   // default 200, at most 1000
}

// EventsPage is a part of the log, ascending by seq.
type EventsPage struct {
	LastSeq int64        `json:"last_seq"` // of the whole log
	Events  []wire.Event `json:"events"`
}

// Events reads a part of the log; viewer and up.
func (c *Client) Events(ctx context.Context, ref string, q EventsQuery) (EventsPage, error) {
	query := url.Values{}
	setNumber(query, "after", q.After)
	setNumber(query, "before", q.Before)
	setNumber(query, "tail", int64(q.Tail))
	setNumber(query, "limit", int64(q.Limit))
	return fetchAt[EventsPage](ctx, c, call{method: http.MethodGet, query: query, repeat: true},
		"/v1/sessions/", ref, "/events")
}

// AllEvents reads the log from after to its end as it is now, in pages. A page too large for
// Config.MaxResponseBytes is asked for again in smaller ones. The sequence ends after an error.
func (c *Client) AllEvents(ctx context.Context, ref string, after int64) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		limit := MaxEventsPage
		for {
			page, err := c.Events(ctx, ref, EventsQuery{After: after, Limit: limit})
			if errors.Is(err, ErrResponseTooLarge) && limit > 1 {
				limit = max(1, limit/8)
				continue
			}
			if err != nil {
				yield(wire.Event{}, err)
				return
			}
			for _, event := range page.Events {
				if !yield(event, nil) {
					return
				}
				after = event.Seq
			}
			if len(page.Events) == 0 || after >= page.LastSeq {
				return
			}
		}
	}
}

// Append is a batch of events (SS-EVT-2).
type Append struct {
	// Events are 1 to 200. Give each a ClientEventID: only then may the batch be sent again.
	Events []wire.IncomingEvent `json:"events"`
	// ExpectedLastSeq, when set, refuses the batch with seq_conflict unless the log ends there.
	ExpectedLastSeq *int64 `json:"expected_last_seq,omitempty"`
	// Silent wakes nobody by push for what is in it (ours).
	Silent bool `json:"silent,omitempty"`
}

// AppendEvents stores events; only for the device that holds the live lease (SS-EVT-2). It does not try
// again by itself: an Executor does.
func (c *Client) AppendEvents(ctx context.Context, ref string, batch Append) (wire.Receipt, error) {
	return fetchAt[wire.Receipt](ctx, c, call{method: http.MethodPost, body: batch}, "/v1/sessions/", ref, "/events")
}

// Applied chooses controls by whether they were applied.
type Applied string

// The choices; the default is pending only.
const (
	AppliedPending Applied = "false"
	AppliedDone    Applied = "true"
	AppliedAll     Applied = "all"
)

// MaxControlsPage is the most controls one read answers (SS-CTL-4).
const MaxControlsPage = 500

// TargetMe chooses controls targeted at the calling device.
const TargetMe = "me"

// ControlsQuery says which controls to read (SS-CTL-4).
type ControlsQuery struct {
	Applied Applied
	Target  string // "" for all, TargetMe, or a device id
	After   int64  // controls with a greater seq
}

// Controls answers at most 500 controls, oldest first; viewer and up, with or without a lease.
func (c *Client) Controls(ctx context.Context, ref string, q ControlsQuery) ([]wire.Control, error) {
	query := url.Values{}
	if q.Applied != "" {
		query.Set("applied", string(q.Applied))
	}
	if q.Target != "" {
		query.Set("target", q.Target)
	}
	setNumber(query, "after", q.After)
	listed, err := fetchAt[struct {
		Controls []wire.Control `json:"controls"`
	}](ctx, c, call{method: http.MethodGet, query: query, repeat: true}, "/v1/sessions/", ref, "/controls")
	return listed.Controls, err
}

// AllControls reads every control that q chooses, in pages. The sequence ends after an error.
func (c *Client) AllControls(ctx context.Context, ref string, q ControlsQuery) iter.Seq2[wire.Control, error] {
	return func(yield func(wire.Control, error) bool) {
		for {
			page, err := c.Controls(ctx, ref, q)
			if err != nil {
				yield(wire.Control{}, err)
				return
			}
			before := q.After
			for _, control := range page {
				if control.Seq <= before {
					continue // a server that does not know `after` starts at the oldest again
				}
				if !yield(control, nil) {
					return
				}
				q.After = max(q.After, control.Seq)
			}
			if len(page) < MaxControlsPage || q.After == before {
				return
			}
		}
	}
}

// SendControl sends a control; editor and up (SS-CTL-1). An empty ID is filled in. It is tried again with
// the same id; an answer with Duplicate is a success (SS-CON-2). A caller that calls again for the same
// intention must bring the same id.
func (c *Client) SendControl(ctx context.Context, ref string, control wire.IncomingControl) (wire.ControlReceipt, error) {
	if control.ID == "" {
		control.ID = NewID()
	}
	return fetchAt[wire.ControlReceipt](ctx, c, call{method: http.MethodPost, body: control, repeat: true},
		"/v1/sessions/", ref, "/control")
}

// MarkApplied says that a control was carried out: for the holder of the live lease, or the target of an
// open handoff (SS-CTL-5). Again is a success.
func (c *Client) MarkApplied(ctx context.Context, ref, controlID string) error {
	_, err := fetchAt[struct{}](ctx, c, call{method: http.MethodPost, repeat: true},
		"/v1/sessions/", ref, "/control/", controlID, "/applied")
	return err
}

// Dispatch starts work on one device of the session's owner; editor and up (SS-DSP-1). An empty ControlID
// is filled in, and the request is tried again with it. Pushed false means queued, not failed
// (SS-CON-4).
func (c *Client) Dispatch(ctx context.Context, ref string, dispatch wire.Dispatch) (wire.DispatchReceipt, error) {
	if dispatch.ControlID == nil {
		id := "dispatch:" + NewID()
		dispatch.ControlID = &id
	}
	return fetchAt[wire.DispatchReceipt](ctx, c, call{method: http.MethodPost, body: dispatch, repeat: true},
		"/v1/sessions/", ref, "/dispatch")
}

// Pushes answers the pushes of a session and what became of them, newest first, at most wire.MaxPushes; editor and up.
// It is an extension of cairn: another server answers not_found.
func (c *Client) Pushes(ctx context.Context, ref string) ([]wire.Push, error) {
	listed, err := fetchAt[struct {
		Pushes []wire.Push `json:"pushes"`
	}](ctx, c, call{method: http.MethodGet, repeat: true}, "/v1/sessions/", ref, "/pushes")
	return listed.Pushes, err
}
