package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// One device asks two nodes for the same at the same time, as it does when an answer is late and a proxy tries
// elsewhere.
func TestWorkspaceRacesOnTwoNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testkit.New(t, testkit.Postgres), 2, nil)
	t.Run("ES-5.1 one client_msg_id on two nodes: one message", func(t *testing.T) {
		for round := range 8 {
			in := wirews.NewMessage{ClientMsgID: servertest.NewID(), ContentMD: fmt.Sprint("round ", round)}
			answers := f.race(f.owner, 6, func(by *servertest.Person) servertest.Answer {
				return by.Do(t, http.MethodPost, threadPath(f.thread()), in)
			})
			ids, created := map[string]bool{}, 0
			for _, answer := range answers {
				if answer.Status == http.StatusCreated {
					created++
				} else {
					require.Equal(t, "true", answer.Header.Get(wirews.HeaderIdempotentReplay), "%d %s", answer.Status, answer.Body)
				}
				ids[servertest.Read[wirews.Message](t, answer, answer.Status).ID] = true
			}
			require.Equal(t, 1, created)
			require.Len(t, ids, 1)
		}
		listed := servertest.Read[wirews.Messages](t, f.owner.Do(t, http.MethodGet, threadPath(f.thread())+"?limit=100", nil), http.StatusOK)
		require.Len(t, listed.Messages, 8)
	})
	t.Run("ES-5.2 one Idempotency-Key on two nodes: one change, one event", f.raceKeys)
	t.Run("WS-ID-1 a refresh raced on two nodes leaves one line of tokens", func(t *testing.T) {
		for range 6 {
			f.raceRefresh(t)
		}
	})
}

// race does something many times at once, on all nodes.
func (f *fleet) race(who *servertest.Person, times int, do func(by *servertest.Person) servertest.Answer) []servertest.Answer {
	answers := make([]servertest.Answer, times)
	runners := make([]*servertest.Person, times)
	for i := range runners {
		runners[i] = f.at(i, who)
		runners[i].Do(f.t, http.MethodGet, "/api/v1/me", nil) // it has a nonce of this node
	}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range answers {
		all.Go(func() {
			<-begin
			answers[i] = do(runners[i])
		})
	}
	close(begin)
	all.Wait()
	return answers
}

func (f *fleet) raceKeys(t *testing.T) {
	s := connect(t, f.at(1, f.owner))
	for round := range 8 {
		once, in := servertest.Once(), wirews.NewSpace{Name: fmt.Sprint("raced ", round)}
		ids := map[string]bool{}
		for len(ids) == 0 {
			for _, answer := range f.race(f.owner, 6, func(by *servertest.Person) servertest.Answer {
				return by.Do(t, http.MethodPost, "/api/v1/spaces", in, once)
			}) {
				if answer.Status == http.StatusConflict {
					answer.Problem(t, http.StatusConflict, "request_in_progress")
					continue
				}
				ids[servertest.Read[wirews.Space](t, answer, http.StatusCreated).ID] = true
			}
		}
		require.Len(t, ids, 1)
	}
	f.owner.Say(t, f.thread(), "the end of it")
	made := map[string]int{}
	for {
		event := bodyOf[wirews.Envelope](s, s.expectOneOf(wirews.OpDispatch))
		if event.Type == "space.created" {
			made[event.Resource.ID]++
		}
		if event.Type == "message.created" {
			break
		}
	}
	require.Len(t, made, 8)
	for id, times := range made {
		require.Equal(t, 1, times, id)
	}
}

// raceRefresh refreshes one sign-in on two nodes at once: each gets tokens, and after the race one of them at most
// goes on. Using the other ends the sign-in on every node.
func (f *fleet) raceRefresh(t *testing.T) {
	guest := f.guest("refresher-" + servertest.NewID())
	one, two := f.at(0, guest), f.at(1, guest)
	var both sync.WaitGroup
	both.Go(func() { require.Equal(t, http.StatusOK, one.Refresh(t).Status) })
	both.Go(func() { require.Equal(t, http.StatusOK, two.Refresh(t).Status) })
	both.Wait()
	require.Equal(t, one.Tokens().SessionID, two.Tokens().SessionID)
	for _, p := range []*servertest.Person{one, two} {
		require.Equal(t, http.StatusOK, p.Do(t, http.MethodGet, "/api/v1/me", nil).Status, "both access tokens are good")
	}
	first, second := f.at(1, one), f.at(0, two)
	firstOK, secondOK := first.Refresh(t).Status == http.StatusOK, second.Refresh(t).Status == http.StatusOK
	require.False(t, firstOK && secondOK, "two lines of one sign-in")
	require.Eventually(t, func() bool {
		return first.Do(t, http.MethodGet, "/api/v1/me", nil).Status == http.StatusUnauthorized &&
			second.Do(t, http.MethodGet, "/api/v1/me", nil).Status == http.StatusUnauthorized
	}, patience, soon/100, "a reuse ends the sign-in, on every node")
}
