package server_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// tally counts answers by status, of many goroutines.
type tally struct {
	mu     sync.Mutex
	counts map[int]int            // guarded by mu
	sample map[int]history.Answer // guarded by mu
}

func newTally() *tally { return &tally{counts: map[int]int{}, sample: map[int]history.Answer{}} }

func (l *tally) add(answer history.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[answer.Status]++
	l.sample[answer.Status] = answer
}

// crowd is an organisation with many sessions, used from every node at once.
type crowd struct {
	h        *house
	owner    servertest.Account
	guest    servertest.Account
	org      string
	sessions []string
	answers  *tally
}

func newCrowd(t *testing.T, h *house) *crowd {
	t.Helper()
	c := &crowd{h: h, owner: h.person(t), guest: h.person(t), answers: newTally()}
	boss := c.on(t, c.owner)
	var org wire.Org
	require.NoError(t, boss.want(t, http.StatusCreated, http.MethodPost, "/v1/orgs", map[string]string{"name": "crowd"}).Into(&org))
	c.org = org.ID
	boss.want(t, http.StatusCreated, http.MethodPost, "/v1/orgs/"+c.org+"/members", map[string]string{"user_id": c.guest.UserID})
	for range 8 {
		session := boss.newSession(t)
		boss.want(t, http.StatusCreated, http.MethodPost, "/v1/sessions/"+session+"/shares",
			map[string]string{"principal_type": "org", "principal_id": c.org})
		c.sessions = append(c.sessions, session)
	}
	return c
}

// on is somebody on a fresh device and a random node.
func (c *crowd) on(t *testing.T, who servertest.Account) caller {
	t.Helper()
	return raw(t, at([]*servertest.Server{c.h.a, c.h.b}[rand.N(2)]), who)
}

func (c *crowd) anySession() string { return c.sessions[rand.N(len(c.sessions))] }

// Operations that touch many sessions at once (a membership ends, a device with many leases and streams
// is deleted) run against everything that locks one session. Nobody fails and nobody waits for ever.
func TestManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		c := newCrowd(t, newHouse(t, db))
		over := make(chan struct{})
		time.AfterFunc(2*time.Second, func() { close(over) })
		var workers sync.WaitGroup
		for _, job := range []func(*testing.T){c.steers, c.steers, c.steers, c.joinsAndLeaves, c.joinsAndLeaves, c.usesADevice, c.usesADevice, c.shares} {
			workers.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						job(t)
					}
				}
			})
		}
		workers.Wait()
		t.Run("SS-ERR-2 nothing fails for a conflict of locks", func(t *testing.T) {
			for status, answer := range c.answers.sample {
				require.Less(t, status, http.StatusInternalServerError, "%d times: %s", c.answers.counts[status], answer)
			}
			require.Greater(t, c.answers.counts[http.StatusOK], 10, "%v", c.answers.counts)
		})
		t.Run("SS-EVT-2 seq stays dense in every session", func(t *testing.T) {
			for _, session := range c.sessions {
				c.dense(t, session)
			}
		})
	})
}

func (c *crowd) steers(t *testing.T) {
	boss := c.on(t, c.owner)
	for range 5 {
		c.answers.add(boss.do(t, http.MethodPost, "/v1/sessions/"+c.anySession()+"/control", map[string]string{"id": uuid.NewString(), "kind": "pause"}))
	}
}

func (c *crowd) joinsAndLeaves(t *testing.T) {
	boss := c.on(t, c.owner)
	c.answers.add(boss.do(t, http.MethodDelete, "/v1/orgs/"+c.org+"/members/"+c.guest.UserID, nil))
	c.answers.add(boss.do(t, http.MethodPost, "/v1/orgs/"+c.org+"/members", map[string]string{"user_id": c.guest.UserID}))
}

// usesADevice takes some leases and streams with a device, and deletes it.
func (c *crowd) usesADevice(t *testing.T) {
	boss := c.on(t, c.owner)
	for range 3 {
		session := c.anySession()
		c.answers.add(boss.do(t, http.MethodPost, "/v1/sessions/"+session+"/lease", map[string]bool{"force": true}))
		stream := boss.open(t, history.SSE, session, 0)
		defer stream.Close()
		go func() {
			for range stream.Frames { // to the end
			}
		}()
	}
	c.answers.add(boss.do(t, http.MethodDelete, "/v1/devices/"+boss.Device, nil))
}

func (c *crowd) shares(t *testing.T) {
	boss, session := c.on(t, c.owner), c.anySession()
	share := boss.share(t, session, c.guest, wire.RoleViewer)
	c.answers.add(boss.do(t, http.MethodDelete, "/v1/sessions/"+session+"/shares/"+share.ID, nil))
}

func (c *crowd) dense(t *testing.T, session string) {
	t.Helper()
	boss := c.on(t, c.owner)
	for after := int64(0); ; {
		var page struct {
			LastSeq int64 `json:"last_seq"`
			Events  []wire.Event
		}
		path := fmt.Sprintf("/v1/sessions/%s/events?limit=1000&after=%d", session, after)
		require.NoError(t, boss.want(t, http.StatusOK, http.MethodGet, path, nil).Into(&page))
		for _, event := range page.Events {
			after++
			require.Equal(t, after, event.Seq)
		}
		if len(page.Events) == 0 {
			require.Equal(t, page.LastSeq, after)
			return
		}
	}
}
