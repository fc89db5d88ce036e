package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// snapshotSpread is within what time clients ask for a snapshot after an event that made all of them need one.
const snapshotSpread = 300 * time.Millisecond

// AccountConfig says what an Account is made of.
type AccountConfig struct {
	Client Config
	// Store keeps everything; Client.Tokens is taken from it when it is nil.
	Store Store
	// Gateway are the options of the connection.
	Gateway GatewayOptions
	// OnEvent, when set, sees every durable event after it was applied, and every ephemeral one. It is
	// called on the goroutine that receives and must be quick.
	OnEvent func(Event)
	// OnOther, when set, sees the ops that this version does not know (ES-6.1).
	OnOther func(op string, d json.RawMessage)
}

// Account is one person on one device: client, connection, local copy and outbox, working together as
// ES-7, 8, 9 and 13 say. What it knows is in its State, what it does goes through its Outbox, and both are in
// its Store. It is safe for concurrent use; Run works once at a time.
type Account struct {
	config  AccountConfig
	client  *Client
	state   *State
	outbox  *Outbox
	gateway *Gateway

	wanted  chan struct{} // holds one: the State may need something
	running atomic.Bool

	mu      sync.Mutex // guards what follows
	at      Position
	changed chan struct{} // closed, and replaced, when something came to rest
	live    bool
	failed  error // what Run ended with, until it runs again
}

// OpenAccount opens an account from its store. It makes no request.
func OpenAccount(ctx context.Context, c AccountConfig) (*Account, error) {
	if c.Store == nil {
		return nil, errors.New("open account: it needs a store")
	}
	if c.Client.Tokens == nil {
		c.Client.Tokens = c.Store
	}
	client, err := New(c.Client)
	if err != nil {
		return nil, err
	}
	a := &Account{
		config: c, client: client, state: NewState(c.Client.Device.ID), wanted: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	at, records, err := c.Store.LoadCopy(ctx)
	if err != nil {
		return nil, fmt.Errorf("load local copy: %w", err)
	}
	if err := a.state.Restore(records); err != nil {
		return nil, err
	}
	a.at = at
	a.state.Expire(time.Now())
	if a.outbox, err = NewOutbox(ctx, client, c.Store); err != nil {
		return nil, err
	}
	a.outbox.Listen(a.outcome)
	if a.config.Gateway.Report == nil {
		a.config.Gateway.Report = func(error) {}
	}
	a.gateway = client.Gateway(&accountSink{a}, a.config.Gateway)
	return a, nil
}

// Client answers the client, for what has no copy here.
func (a *Account) Client() *Client { return a.client }

// State answers the local copy.
func (a *Account) State() *State { return a.state }

// Outbox answers the outbox.
func (a *Account) Outbox() *Outbox { return a.outbox }

// Gateway answers the connection.
func (a *Account) Gateway() *Gateway { return a.gateway }

// Close lets go of the connections and the store. Run has to have ended.
func (a *Account) Close() error {
	a.client.Close()
	return a.config.Store.Close()
}

// Run connects, keeps the copy up to date and sends the outbox until ctx ends; then it answers nil. It ends by
// itself as Gateway.Run does, after ErrRevoked with everything deleted (ES-8.5), and when the store fails. Settle and
// Outbox.Idle answer that until Run begins again.
func (a *Account) Run(ctx context.Context) error {
	if a.running.Swap(true) {
		return errors.New("run account: it runs already")
	}
	defer a.running.Store(false)
	a.outbox.stop(nil)
	a.rest(func() { a.failed = nil })
	err := a.run(ctx)
	if err != nil {
		a.outbox.stop(err)
		a.rest(func() { a.failed = err })
	}
	return err
}

func (a *Account) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	part := func(run func(context.Context) error) {
		parts.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	part(a.outbox.Run)
	part(a.load)
	err := a.gateway.Run(ctx)
	cancel(err)
	parts.Wait()
	a.outbox.Hold()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = cause
	}
	if errors.Is(err, ErrRevoked) {
		a.outbox.stop(err)
		return errors.Join(err, a.Erase(context.WithoutCancel(ctx)))
	}
	return err
}

// Erase deletes all local data of the account: tokens, copy, outbox and keys.
func (a *Account) Erase(ctx context.Context) error {
	a.state.Discard()
	a.outbox.forget()
	a.client.auth.hold(nil)
	err := a.config.Store.Erase(ctx)
	if a.config.Client.Keys != nil {
		err = errors.Join(err, a.config.Client.Keys.Erase())
	}
	a.mu.Lock()
	a.at = Position{}
	a.mu.Unlock()
	return err
}

// OpenThread holds a thread's messages, and with them its unread counts, from now on. They are there when Settle
// answers.
func (a *Account) OpenThread(id string) {
	a.state.OpenThread(id, time.Now())
	signal(a.wanted)
}

// OpenChannel holds the threads of a channel from now on.
func (a *Account) OpenChannel(id string) {
	a.state.OpenChannel(id, time.Now())
	signal(a.wanted)
}

// LoadOlder loads older messages of an open thread, and reports whether there are more.
func (a *Account) LoadOlder(ctx context.Context, thread string) (bool, error) {
	return a.client.LoadOlder(ctx, a.state, thread)
}

// Settle waits until the connection is live and everything the State needs is loaded. Its error is that ctx has ended, or
// what Run has ended with.
func (a *Account) Settle(ctx context.Context) error {
	return a.await(ctx, func() bool { return a.live && len(a.state.Needs()) == 0 })
}

// SettleAt is Settle that also waits until the log was processed up to a number, such as a snapshot's head_seq.
func (a *Account) SettleAt(ctx context.Context, seq int64) error {
	return a.await(ctx, func() bool { return a.live && a.at.Seq >= seq && len(a.state.Needs()) == 0 })
}

func (a *Account) await(ctx context.Context, ready func() bool) error {
	for {
		a.mu.Lock()
		done, changed, failed := ready(), a.changed, a.failed
		a.mu.Unlock()
		if failed != nil {
			return fmt.Errorf("account has stopped: %w", failed)
		}
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the account: %w", ctx.Err())
		}
	}
}

// rest changes what await looks at and wakes it.
func (a *Account) rest(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	close(a.changed)
	a.changed = make(chan struct{})
}

// Position answers how far the log was processed.
func (a *Account) Position() Position {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

// load loads what the State needs, one thing after the other, again after a failure.
func (a *Account) load(ctx context.Context) error {
	wait := backoff{base: requestBase, limit: reconnectCap}
	for ctx.Err() == nil {
		needs := a.state.Needs()
		if len(needs) == 0 || !a.signedIn(ctx) {
			wait.failures = 0
			a.rest(func() {})
			select {
			case <-ctx.Done():
			case <-a.wanted:
			}
			continue
		}
		if needs[0].Kind == NeedSnapshot && !httpkit.Sleep(ctx, time.Duration(rand.Float64()*float64(snapshotSpread))) {
			return nil
		}
		loaded, err := a.client.Load(ctx, a.state, needs[0])
		if errors.Is(err, ErrSignedOut) {
			continue
		}
		if err != nil && ctx.Err() == nil {
			a.config.Gateway.Report(err)
		}
		if loaded {
			wait.failures = 0
			continue
		}
		httpkit.Sleep(ctx, wait.next(waitOf(err)))
	}
	return nil
}

// signedIn reports whether there is any use in loading.
func (a *Account) signedIn(ctx context.Context) bool {
	if a.config.Client.APIToken != "" {
		return true
	}
	held, err := a.client.SignedIn(ctx)
	return err == nil && held != nil
}

// outcome takes what the server answered to a write over into the copy: the events say the same later.
func (a *Account) outcome(o Outcome) {
	if o.Answer == nil || !o.Done {
		return
	}
	switch o.Entry.Kind {
	case EntryMessage, EntryEdit:
		took(o.Answer, a.state.TookMessage)
	case EntryThread:
		took(o.Answer, func(started wire.ThreadStarted) { a.state.TookMessage(started.Message) })
	case EntryWrite:
		a.tookWrite(o)
	case EntryDelete:
	}
}

func (a *Account) tookWrite(o Outcome) {
	if o.Entry.Method != http.MethodPut {
		return
	}
	at := strings.Split(strings.TrimPrefix(o.Entry.Path, prefix+"/"), "/")
	switch {
	case at[0] == "drafts":
		took(o.Answer, func(v wire.Draft) { a.state.Took(v) })
	case at[0] == "settings":
		took(o.Answer, func(v wire.Setting) { a.state.Took(v) })
	case at[0] == "notification-prefs":
		took(o.Answer, func(v wire.NotificationPref) { a.state.Took(v) })
	case at[0] == "quiet-hours":
		took(o.Answer, func(v wire.QuietHours) { a.state.Took(v) })
	case slices.Contains(at, "sidebar"):
		took(o.Answer, func(v wire.Sidebar) { a.state.Took(v) })
	}
}

// took decodes an answer; one that cannot be read is left to the event that says the same.
func took[T any](answer *Answer, take func(T)) {
	var value T
	if json.Unmarshal(answer.Body, &value) == nil {
		take(value)
	}
}
