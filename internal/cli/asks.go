package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// openAsk is a question that nobody has settled.
type openAsk struct {
	Seq int64 `json:"seq"`
	trace.Ask
}

// asked is what the newest turn of a session asks.
type asked struct {
	Asks []openAsk `json:"asks"` // oldest first
	// Whole is false when some may be missing or settled: sealed events that this device cannot open, or a turn longer
	// than maxAskEvents.
	Whole bool `json:"complete"`

	settled map[string]bool // by ask id, as far as was read
}

// Bounds of looking for open asks: events at once, and in all.
const (
	askPage      = 200
	maxAskEvents = 20_000
)

// asks reads which asks are open: the log backwards, to where the newest turn began.
func (a *app) asks(ctx context.Context, c *client.Client, ref string) (*asked, error) {
	identity, err := a.knownIdentity()
	if err != nil {
		return nil, err
	}
	found := &asked{Asks: []openAsk{}, Whole: true, settled: map[string]bool{}}
	limit, before := askPage, int64(0)
	for read := 0; read < maxAskEvents; {
		query := client.EventsQuery{Before: before, Limit: limit}
		if before == 0 {
			query = client.EventsQuery{Tail: limit}
		}
		page, err := c.Events(ctx, ref, query)
		if errors.Is(err, client.ErrResponseTooLarge) && limit > 1 {
			limit = max(1, limit/8)
			continue
		}
		if err != nil {
			return nil, err
		}
		if found.take(page.Events, identity) {
			return found, nil
		}
		read += len(page.Events)
		before = page.Events[0].Seq
	}
	found.Whole = false
	return found, nil
}

// take learns from events, the newest first, and answers whether there is nothing more to learn.
func (f *asked) take(events []wire.Event, identity string) (all bool) {
	for _, event := range slices.Backward(events) {
		switch event.Kind {
		case trace.KindTurnStart:
			return true
		case trace.KindAsk, trace.KindAskResolved:
			f.learn(event, identity)
		}
	}
	return len(events) == 0 || events[0].Seq <= 1
}

func (f *asked) learn(event wire.Event, identity string) {
	if client.IsSealed(event.Payload) {
		plain, err := client.Open(event.Payload, identity)
		if err != nil {
			f.Whole = false
			return
		}
		event.Payload = plain
	}
	payload, err := trace.Read(event)
	if err != nil {
		f.Whole = false
		return
	}
	switch payload := payload.(type) {
	case trace.AskResolved:
		f.settled[payload.AskID] = true
	case trace.Ask:
		if !f.settled[payload.AskID] && f.find(payload.AskID) == nil {
			f.Asks = slices.Insert(f.Asks, 0, openAsk{event.Seq, payload})
		}
	}
}

// find answers an open ask by its id, or nil.
func (f *asked) find(id string) *openAsk {
	at := slices.IndexFunc(f.Asks, func(ask openAsk) bool { return ask.AskID == id })
	if at < 0 {
		return nil
	}
	return &f.Asks[at]
}

// list names the open asks, a line each.
func (f *asked) list() string {
	if len(f.Asks) == 0 {
		return "no ask is open"
	}
	lines := []string{"open are"}
	for _, ask := range f.Asks {
		lines = append(lines, "  "+render.Clean(ask.AskID)+"  "+render.Clean(ask.Title))
	}
	return strings.Join(lines, "\n")
}

// only answers the one ask that is open.
func (f *asked) only(ref string) (*openAsk, error) {
	switch {
	case !f.Whole:
		return nil, fmt.Errorf("it cannot be known here which asks are open: say which ASK\n`cairn session asks %s` tells what is known", ref)
	case len(f.Asks) == 0:
		return nil, errors.New(f.list())
	case len(f.Asks) > 1:
		return nil, fmt.Errorf("%d asks are open: say which ASK\n%s", len(f.Asks), f.list())
	default:
		return &f.Asks[0], nil
	}
}

// check refuses an ask that is known not to be open.
func (f *asked) check(id string) error {
	switch {
	case f.find(id) != nil, !f.Whole && !f.settled[id]:
		return nil
	case f.settled[id]:
		return fmt.Errorf("ask %s is settled already; %s", id, f.list())
	default:
		return fmt.Errorf("ask %s is not open; %s", id, f.list())
	}
}

// whichAsk answers the ask that a control is for: the one named, unless it is known not to be open, else the only one that
// is, and its title. A control with an id of the caller's may be a repetition of one that settled its ask: the server tells.
func (a *app) whichAsk(ctx context.Context, c *client.Client, ref, named, controlID string) (id, title string, err error) {
	if controlID != "" {
		if named == "" {
			return "", "", wrongUsage("--id needs ASK: the same control is for the same ask")
		}
		return named, "", nil
	}
	open, err := a.asks(ctx, c, ref)
	if err != nil {
		return "", "", err
	}
	if named != "" {
		return named, "", open.check(named)
	}
	ask, err := open.only(ref)
	if err != nil {
		return "", "", err
	}
	return ask.AskID, ask.Title, nil
}

func newSessionAsks(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "asks SESSION", Short: "List what an agent asks and nobody has answered", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		open, err := a.asks(ctx, c, args[0])
		if err != nil {
			return err
		}
		return a.show(open, func() error {
			if !open.Whole {
				a.remark("This may not be all: the turn is long, or sealed for other devices.")
			}
			rows := make([][]string, len(open.Asks))
			for i, ask := range open.Asks {
				rows[i] = []string{ask.AskID, strconv.FormatInt(ask.Seq, 10), orDash(&ask.Title), orDash(given(optionIDs(ask.Options)))}
			}
			return a.table("ASK EVENT TITLE OPTIONS", rows)
		})
	})
	return cmd
}

func optionIDs(options []trace.Option) string {
	ids := make([]string, len(options))
	for i, option := range options {
		ids[i] = option.ID
	}
	return strings.Join(ids, ", ")
}
