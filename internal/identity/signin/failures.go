package signin

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/lru"
	"github.com/cairnsync/cairn/wire/code"
)

const (
	// maxFailures is how many logins may fail within failureWindow, per account and per address (WS-ID-4).
	maxFailures   = 10
	failureWindow = 15 * time.Minute
	// maxCounted is how many accounts are counted, and how many addresses and names that nobody has; past it the
	// one that failed longest ago is forgotten.
	maxCounted = 65_536
	// maxAttempts is how many attempts may wait for others of the same account or address.
	maxAttempts = 1_024
	// accountPrefix begins the names of accounts that exist.
	accountPrefix = "account "
)

// outcome is how a login ended.
type outcome int

const (
	undecided outcome = iota // nobody found out
	failed
	succeeded
)

// failures counts failed logins on this node. An attempt holds a place of each of its names while it
// runs, so that many at once do not get more tries than one after another.
type failures struct {
	env     *env.Env
	enabled bool

	mu sync.Mutex // guards what follows
	// accounts are the tries of accounts that exist, counts those of addresses and of names that nobody has:
	// of those anybody can think of any number, and they must not make what is known of an account forgotten.
	accounts, counts *lru.Cache[string, *tries]

	waiting int
	changed chan struct{} // closed and made anew whenever an attempt ends
}

// tries are the attempts under one name.
type tries struct {
	failed  []time.Time // the last ones, oldest first, at most maxFailures
	running int
}

func newFailures(e *env.Env, enabled bool) *failures {
	return &failures{
		env: e, enabled: enabled, accounts: lru.New[string, *tries](maxCounted), counts: lru.New[string, *tries](maxCounted),
		changed: make(chan struct{}),
	}
}

// attempt waits until nothing that runs could exhaust one of the names, and answers rate_limited when one
// is. The caller says with done how it ended.
func (f *failures) attempt(ctx context.Context, names ...string) (done func(outcome), err error) {
	if !f.enabled {
		return func(outcome) {}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		free, wait := f.state(names)
		if wait > 0 {
			return nil, tooManyFailures(wait)
		}
		if free {
			break
		}
		if err := f.pause(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		f.of(name).running++
	}
	return func(how outcome) { f.done(how, names) }, nil
}

// pause gives the lock away until an attempt has ended.
func (f *failures) pause(ctx context.Context) error {
	if f.waiting >= maxAttempts {
		return fault.New(code.Unavailable, "Too many people sign in right now. Try again.")
	}
	f.waiting++
	changed := f.changed
	f.mu.Unlock()
	var err error
	select {
	case <-changed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	f.waiting--
	return err
}

// state answers whether each name has a place left, and how long to wait when one has failed too often. It
// keeps nothing about names: who is refused takes no room.
func (f *failures) state(names []string) (free bool, wait time.Duration) {
	now := f.env.Now()
	free = true
	for _, name := range names {
		t, known := f.cacheOf(name).Get(name)
		if !known {
			continue
		}
		t.forget(now)
		if len(t.failed) >= maxFailures {
			wait = max(wait, t.failed[0].Add(failureWindow).Sub(now))
		}
		free = free && len(t.failed)+t.running < maxFailures
	}
	return free, wait
}

// of answers the tries of a name. The caller holds mu.
func (f *failures) of(name string) *tries {
	cache := f.cacheOf(name)
	if t, found := cache.Get(name); found {
		return t
	}
	t := &tries{}
	cache.Put(name, t)
	return t
}

func (f *failures) cacheOf(name string) *lru.Cache[string, *tries] {
	if strings.HasPrefix(name, accountPrefix) {
		return f.accounts
	}
	return f.counts
}

func (t *tries) forget(now time.Time) {
	for len(t.failed) > 0 && now.Sub(t.failed[0]) >= failureWindow {
		t.failed = t.failed[1:]
	}
}

// done ends an attempt. A success forgives the account, which is named first; an address keeps what it did.
func (f *failures) done(how outcome, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, name := range names {
		t := f.of(name)
		t.running = max(t.running-1, 0) // it may have been forgotten at the bound
		switch {
		case how == failed:
			t.failed = append(t.failed, f.env.Now())
			t.failed = t.failed[max(len(t.failed)-maxFailures, 0):]
		case how == succeeded && i == 0 && len(names) > 1:
			t.failed = nil
		}
		if len(t.failed) == 0 && t.running == 0 {
			f.cacheOf(name).Drop(name)
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func tooManyFailures(wait time.Duration) error {
	return fault.New(code.RateLimited, "Too many logins have failed. Wait, then try again.").
		WithDetails(fault.Extra{RetryAfter: wait})
}

// Network answers under which name attempts from an address, with or without a port, are counted: an IPv6
// customer has at least a /64. What is no address counts as it is written.
func Network(address string) string {
	if withPort, err := netip.ParseAddrPort(address); err == nil {
		return prefixName(withPort.Addr())
	}
	if plain, err := netip.ParseAddr(address); err == nil {
		return prefixName(plain)
	}
	return "address " + address
}

func prefixName(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return "address " + address.String()
	}
	return "address " + prefix.String()
}
