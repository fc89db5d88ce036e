package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/history"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
)

// The command line changes people on a database of its own while the server writes without a pause.
// Neither gets in the other's way, and the server knows the changes within a second.
func TestCommandLineBesideABusyServer(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		node := servertest.Start(t, db, nil)
		owner := raw(t, at(node), node.Account(t, "owner"))
		session := owner.newSession(t)
		stop := make(chan struct{})
		var writers sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for number := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					answer := owner.do(t, http.MethodPost, "/v1/sessions/"+session+"/control", map[string]string{"id": fmt.Sprintf("%d-%d", number, i), "kind": "pause"})
					mu.Lock()
					statuses[answer.Status]++
					mu.Unlock()
				}
			})
		}
		people := commandLine(t, db.URL)
		for i := range 4 {
			changePeople(t, node, people, fmt.Sprintf("user-%d", i))
		}
		close(stop)
		writers.Wait()
		require.Len(t, statuses, 1, "%v", statuses)
		require.Positive(t, statuses[http.StatusAccepted])
	})
}

// changePeople adds a user with two keys and revokes one of them.
func changePeople(t *testing.T, node *servertest.Server, people *identity.Service, name string) {
	t.Helper()
	who := account(t, people, name)
	c := raw(t, at(node), who)
	c.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
	more, err := people.AddKey(t.Context(), who.UserID, "second")
	require.NoError(t, err)
	second := caller{&history.Client{URL: c.URL, Key: more.APIKey, Device: c.Device, HTTP: c.HTTP}}
	second.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
	require.NoError(t, people.RevokeKey(t.Context(), more.KeyID))
	require.Eventually(t, func() bool {
		return second.do(t, http.MethodGet, "/v1/devices", nil).Status == http.StatusUnauthorized
	}, soon, 10*time.Millisecond, "SS-ROLE-2 a revoked key ends within a second")
	c.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
}
