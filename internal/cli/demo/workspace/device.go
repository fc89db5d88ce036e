package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
	"github.com/cairnsync/cairn/internal/cli/demo/network"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// device is a device of the demonstration: a client of the SDK with a store and a network connection of its own.
type device struct {
	stage   *stage
	owner   *person
	name    string
	line    *network.Line
	account *client.Account

	cancel context.CancelFunc // of what runs; nil when nothing does
	ended  chan error         // gets how it ended

	mu     sync.Mutex // guards what follows
	record record
}

// record is what a device received.
type record struct {
	epoch string
	begin int64              // everything after it must be in seen
	last  int64              // number of the newest event
	seen  map[int64]struct{} // in this epoch

	hidden map[string]bool  // channels that it must hear nothing of
	since  map[string]int64 // channels that it was let into, and when

	events     int64
	missed     []string // events that it should have received and did not
	duplicates int64
	trespasses int64 // events that it must not have seen
	violations []error
	lost       int
	closes     map[code.Close]int
}

func (s *stage) device(owner *person, kind string) *device {
	d := &device{stage: s, owner: owner, name: owner.called + "'s " + kind, line: network.New(s.Env)}
	if owner.called == "Emil" {
		d.line = network.NewSlow(s.Env)
	}
	d.record = record{seen: map[int64]struct{}{}, hidden: map[string]bool{}, since: map[string]int64{}, closes: map[code.Close]int{}}
	owner.devices = append(owner.devices, d)
	return d
}

// open opens the device's store. It makes no request.
func (d *device) open(ctx context.Context) error {
	store, keys, err := localstore.OpenIn(filepath.Join(d.stage.folder, "devices", d.name))
	if err != nil {
		return fmt.Errorf("open store of %s: %w", d.name, err)
	}
	d.account, err = client.OpenAccount(ctx, client.AccountConfig{
		Client: client.Config{
			BaseURL: d.stage.server.url, HTTP: d.line.Client(), Keys: keys, Attempts: 5,
			Device: client.Device{ID: d.stage.Env.RandomID(), Name: d.name, Platform: "demo"},
		},
		Store: store, OnEvent: d.heard, Gateway: client.GatewayOptions{Report: d.reported},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("open account of %s: %w", d.name, err), store.Close())
	}
	return nil
}

// signIn signs the device in with a login code.
func (d *device) signIn(ctx context.Context, login string) error {
	answer, err := d.account.Client().SignIn(ctx, client.LoginCode(login))
	if err != nil {
		return fmt.Errorf("sign in %s: %w", d.name, err)
	}
	d.owner.id = answer.Principal.ID
	return nil
}

// start lets the device connect and work.
func (d *device) start(ctx context.Context) {
	running, cancel := context.WithCancel(ctx)
	d.cancel, d.ended = cancel, make(chan error, 1)
	go func() { d.ended <- d.account.Run(running) }()
}

// stop lets it rest, and answers how it ended.
func (d *device) stop() error {
	if d.cancel == nil {
		return nil
	}
	d.cancel()
	d.cancel = nil
	d.line.Thaw()
	return <-d.ended
}

// ends waits until the device stops by itself, and answers why.
func (d *device) ends(ctx context.Context) (error, error) {
	select {
	case why := <-d.ended:
		d.cancel()
		d.cancel = nil
		return why, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %s to stop: %w", d.name, ctx.Err())
	}
}

func (d *device) close() error {
	d.line.Thaw()
	failed := d.stop()
	if d.account != nil {
		failed = errors.Join(failed, d.account.Close())
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", d.name, failed)
	}
	return nil
}

// heard notes an event, after it was applied.
func (d *device) heard(event client.Event) {
	if !event.Durable() {
		return
	}
	epoch := d.account.Position().Epoch
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.record
	if r.epoch != epoch {
		r.epoch, r.last, r.seen = epoch, 0, map[int64]struct{}{}
	}
	if _, again := r.seen[event.Seq]; again || event.Seq <= r.last {
		r.duplicates++
	}
	r.seen[event.Seq] = struct{}{}
	r.last = max(r.last, event.Seq)
	r.events++
	if r.hidden[event.Scope.ChannelID] && event.Audience != wire.AudienceSelf {
		r.trespasses++
	}
	if changed, is := event.Data.(*wire.AccessChanged); is {
		for _, access := range changed.Added {
			delete(r.hidden, access.ID)
			r.since[access.ID] = event.Seq
		}
		for _, access := range changed.Removed {
			r.hidden[access.ID] = true
		}
	}
}

// reported notes what went wrong with a connection.
func (d *device) reported(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if violated, is := errors.AsType[*client.Violation](err); is {
		d.record.violations = append(d.record.violations, violated)
		return
	}
	if closed, is := errors.AsType[*client.Closed](err); is {
		d.record.closes[closed.Code]++
	}
	d.record.lost++
}

// hide says that the device must hear nothing of a channel.
func (d *device) hide(channel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record.hidden[channel] = true
}

// note answers what was noted.
func (d *device) note() record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record
}

// fresh begins to count gaps anew, from where the device's copy stands.
func (d *device) fresh() {
	at := d.account.Position()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record.epoch != at.Epoch {
		d.record.epoch, d.record.last, d.record.seen = at.Epoch, 0, map[int64]struct{}{}
	}
	d.record.begin = at.Seq
}

// visible asks the server for the events after a number that the person may see now.
func (d *device) visible(ctx context.Context, after int64) ([]wire.Envelope, error) {
	var all []wire.Envelope
	for {
		page, err := d.account.Client().Events(ctx, after, "", 0)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if page.NextCursor >= page.HeadSeq || page.NextCursor <= after {
			return all, nil
		}
		after = page.NextCursor
	}
}

// level waits until the device is live, has everything up to where the log ends now, and has loaded what it needs.
func (d *device) level(ctx context.Context) error {
	now, err := d.account.Client().Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("ask for the end of the log: %w", err)
	}
	err = until(ctx, "events", func() bool {
		at := d.account.Position()
		return at.Epoch == now.SyncEpoch && at.Seq >= now.HeadSeq
	})
	if err != nil {
		return err
	}
	if err := d.account.Settle(ctx); err != nil {
		return fmt.Errorf("load what is needed: %w", err)
	}
	return nil
}

// check notes the events since the last check that the device should have received and did not. Nothing may be written
// meanwhile.
func (d *device) check(ctx context.Context) error {
	events, err := d.visible(ctx, d.note().begin)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.record
	for _, event := range events {
		if _, seen := r.seen[event.Seq]; !seen && event.Seq > r.since[event.Scope.ChannelID] {
			r.missed = append(r.missed, fmt.Sprintf("event %d %s", event.Seq, event.Type))
		}
		r.begin = max(r.begin, event.Seq)
	}
	return nil
}

// until waits for something that another goroutine or process brings about.
func until(ctx context.Context, what string, done func() bool) error {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
