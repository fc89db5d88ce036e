package server_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
	"github.com/cairnsync/cairn/internal/testkit/netproxy"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// peer is a person on one device with the SDK, on a way that can be led to another server. It notes what it sees and
// what it was promised.
type peer struct {
	*workspace.Account

	t     *testing.T
	name  string
	proxy *netproxy.Proxy
	watch func(workspace.Event) // sees durable events; set before run

	mu      sync.Mutex
	seen    map[string]int // guarded by mu; how often message.created came, by client_msg_id
	seq     int64          // guarded by mu; the newest event
	faults  []string       // guarded by mu
	sent    []string       // guarded by mu; what the outbox took
	acked   []string       // guarded by mu; what a server answered directly
	unknown int            // guarded by mu; writes that were given up without an answer
}

// newPeer signs a device of a user in at a node. Run begins the account.
func newPeer(t *testing.T, node *servertest.Server, user, name string) *peer {
	t.Helper()
	p := &peer{t: t, name: name, proxy: netproxy.New(t, node.URL), seen: map[string]int{}}
	store, keys, err := localstore.OpenIn(filepath.Join(t.TempDir(), name))
	require.NoError(t, err)
	p.Account, err = workspace.OpenAccount(t.Context(), workspace.AccountConfig{
		Client: workspace.Config{
			BaseURL: p.proxy.URL(), Device: workspace.Device{ID: servertest.NewID(), Name: name, Platform: "test"}, Keys: keys,
			RequestTimeout: 10 * time.Second,
		},
		Store: store, OnEvent: p.note,
		Gateway: workspace.GatewayOptions{Report: p.report, DialTimeout: 10 * time.Second},
	})
	require.NoError(t, err)
	made, err := node.Server.SignIn().MakeLoginCode(t.Context(), user)
	require.NoError(t, err)
	_, err = p.Client().SignIn(t.Context(), workspace.LoginCode(made.Code))
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// run begins the account; it ends with the test.
func (p *peer) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("run account: %v", err)
		}
	})
}

func (p *peer) report(err error) {
	p.t.Log(p.name, err)
	if violation, is := errors.AsType[*workspace.Violation](err); is {
		p.fault(violation.Error())
	}
}

func (p *peer) fault(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, what)
}

func (p *peer) note(event workspace.Event) {
	if !event.Durable() {
		return
	}
	if p.watch != nil {
		p.watch(event)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if event.Seq <= p.seq {
		p.faults = append(p.faults, fmt.Sprintf("event %d after %d", event.Seq, p.seq))
	}
	p.seq = event.Seq
	if event.Type == workspace.TypeMessageCreated {
		p.seen[event.ClientMsgID]++
	}
}

// talk writes until over: through the outbox, and directly with a client id that is repeated until there is an answer,
// or given up.
func (p *peer) talk(over <-chan struct{}, threads []string) {
	ctx := p.t.Context()
	beat := time.NewTicker(25 * time.Millisecond)
	defer beat.Stop()
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		case <-beat.C:
		}
		thread, text := threads[i%len(threads)], fmt.Sprintf("%s %d", p.name, i)
		if i%2 == 0 {
			entry, err := p.Outbox().Send(ctx, thread, workspace.Text{ContentMD: text})
			if err != nil {
				p.fault(err.Error())
				return
			}
			p.keep(&p.sent, entry.ID)
			continue
		}
		p.insist(over, thread, wirews.NewMessage{ClientMsgID: workspace.NewID(), ContentMD: text}, i%8 == 1)
	}
}

// insist sends a message until it is answered; fickle gives up after the first failure.
func (p *peer) insist(over <-chan struct{}, thread string, in wirews.NewMessage, fickle bool) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := p.Client().SendMessage(p.t.Context(), thread, in)
		if err == nil {
			p.keep(&p.acked, in.ClientMsgID)
			return
		}
		if fickle {
			p.mu.Lock()
			p.unknown++
			p.mu.Unlock()
			return
		}
		select {
		case <-over:
			return
		case <-again.C:
		}
	}
}

func (p *peer) keep(list *[]string, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*list = append(*list, id)
}

// agreed waits until everything was sent and came back, and holds the peer against the server: nothing acknowledged
// is lost, nothing is there twice, every message came as an event exactly once, and the local copy is the server's.
func (p *peer) agreed(threads []string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*patience)
	defer cancel()
	require.NoError(p.t, p.Outbox().Idle(ctx), p.name)
	require.Empty(p.t, p.Outbox().Entries(), "everything was sent")
	p.current(ctx)
	stored := p.stored(ctx, threads)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.faults, p.name)
	for _, id := range append(p.acked, p.sent...) {
		require.Contains(p.t, stored, id, "ES-1 acknowledged, and lost")
	}
	for id := range stored {
		require.Equal(p.t, 1, p.seen[id], "%s: every message comes as an event once", p.name)
	}
	require.Len(p.t, p.seen, len(stored), "no event of a message that is not there")
}

// current waits until the local copy is the server's, field by field. How far the log is does not matter: a client hears of
// what it does not see much later.
func (p *peer) current(ctx context.Context) {
	p.t.Helper()
	var differences []workspace.Difference
	require.Eventually(p.t, func() bool {
		if p.Settle(ctx) != nil {
			return false
		}
		fresh, err := p.Client().Fresh(ctx, p.State().Export())
		if err != nil {
			return false
		}
		differences = workspace.Compare(p.State().Export(), fresh)
		return len(differences) == 0
	}, patience, 100*time.Millisecond, "%s differs from a fresh copy: %v", p.name, &differences)
}

// stored reads the messages of threads, by client_msg_id, and demands that their numbers are dense (ES-4).
func (p *peer) stored(ctx context.Context, threads []string) map[string]bool {
	p.t.Helper()
	all := map[string]bool{}
	for _, thread := range threads {
		for after := int64(0); ; {
			page, err := p.Client().Messages(ctx, thread, workspace.Range{After: after, From: true, Limit: 100})
			require.NoError(p.t, err)
			for _, message := range page.Messages {
				after++
				require.Equal(p.t, after, message.ThreadSeq)
				require.NotContains(p.t, all, message.ClientMsgID, "ES-5.1 there twice")
				all[message.ClientMsgID] = true
			}
			if len(page.Messages) == 0 {
				break
			}
		}
	}
	return all
}

// company is peers that talk in two threads.
type company struct {
	t       *testing.T
	owner   *servertest.Person
	space   string
	peers   []*peer
	threads []string
	at      []string // where each peer is led to
	over    chan struct{}
	talking sync.WaitGroup
	ended   atomic.Bool
}

// newCompany makes an owner with two devices and a guest, at a node.
func newCompany(t *testing.T, node *servertest.Server) *company {
	t.Helper()
	c := &company{t: t, over: make(chan struct{})}
	owner := node.Person(t, "owner")
	space := owner.Space(t, "space")
	c.owner, c.space = owner, space.ID
	for _, name := range []string{"one", "two"} {
		c.threads = append(c.threads, owner.Channel(t, space.ID, name).MainThreadID)
	}
	guest, err := node.Identity().AddUser(t.Context(), "guest", nil)
	require.NoError(t, err)
	owner.Grant(t, guest.UserID, wirews.TargetSpace, space.ID, wirews.LevelWrite)
	for name, user := range map[string]string{"laptop": owner.ID, "phone": owner.ID, "guest": guest.UserID} {
		c.peers = append(c.peers, newPeer(t, node, user, name))
	}
	return c
}

// run connects everybody, and then everybody talks.
func (c *company) run() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for _, p := range c.peers {
		p.run()
		require.NoError(c.t, p.Settle(ctx))
		for _, thread := range c.threads {
			p.OpenThread(thread)
		}
		require.NoError(c.t, p.Settle(ctx))
	}
	for _, p := range c.peers {
		c.talking.Go(func() { p.talk(c.over, c.threads) })
	}
	c.t.Cleanup(c.hush)
}

// hush ends the talk.
func (c *company) hush() {
	if !c.ended.Swap(true) {
		close(c.over)
	}
	c.talking.Wait()
}

// counts answers how many messages were acknowledged, and given up, until now.
func (c *company) counts() (acked, unknown int) {
	for _, p := range c.peers {
		p.mu.Lock()
		acked, unknown = acked+len(p.acked)+len(p.sent), unknown+p.unknown
		p.mu.Unlock()
	}
	return acked, unknown
}

// agreed ends the talk and holds everybody against the server.
func (c *company) agreed() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		acked, _ := c.counts()
		return acked > 50
	}, 2*patience, 50*time.Millisecond, "too little happened to prove anything")
	c.hush()
	for _, p := range c.peers {
		p.agreed(c.threads)
	}
	acked, unknown := c.counts()
	c.t.Logf("%d messages acknowledged, %d given up", acked, unknown)
}
