package workspace

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
)

func sdkCases() []testCase {
	return []testCase{
		{rule: "ES-6.5", name: "the Go SDK comes back by itself, its outbox with it, and knows what the server knows", profile: resumed, slow: true, run: caseSDK},
	}
}

// caseSDK takes the nodes away under a client that goes on writing.
func caseSDK(t *trial) {
	r := t.room()
	account := t.account(r.anna)
	require.NoError(t, account.Settle(t.Context()))
	account.OpenThread(r.thread)
	send := func(text string) {
		_, err := account.Outbox().Send(t.Context(), r.thread, client.Text{ContentMD: text})
		require.NoError(t, err)
	}
	send("before")
	require.NoError(t, account.Outbox().Idle(t.Context()))
	away := make(chan error, 1)
	go func() { away <- t.in.operated().Restart(context.WithoutCancel(t.Context())) }()
	send("meanwhile")
	require.NoError(t, <-away)
	send("after")
	require.NoError(t, account.Outbox().Idle(t.Context()))
	require.Len(t, r.messages(r.owner, "").Messages, 3)
	t.Eventually(patience, "the local copy is what a fresh one would be", func() bool {
		snapshot, err := account.Client().Snapshot(t.Context())
		if err != nil || account.SettleAt(t.Context(), snapshot.HeadSeq) != nil {
			return false
		}
		fresh, err := account.Client().Fresh(t.Context(), account.State().Export())
		return err == nil && len(client.Compare(account.State().Export(), fresh)) == 0
	})
}

// account signs somebody in with the SDK and runs it until the case ends.
func (t *trial) account(p *person) *client.Account {
	dir, err := os.MkdirTemp("", "conformance-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	store, keys, err := localstore.OpenIn(dir)
	require.NoError(t, err)
	account, err := client.OpenAccount(t.Context(), client.AccountConfig{
		Client: client.Config{BaseURL: t.in.Nodes()[0], Device: client.Device{ID: uuid.NewString(), Name: "sdk", Platform: "test"}, Keys: keys},
		Store:  store,
		Gateway: client.GatewayOptions{Report: func(err error) {
			if violation, is := errors.AsType[*client.Violation](err); is {
				t.Errorf("the SDK saw: %v", violation)
			}
		}},
	})
	require.NoError(t, err)
	code, err := t.in.LoginCode(t.Context(), p.id)
	require.NoError(t, err)
	_, err = account.Client().SignIn(t.Context(), client.LoginCode(code))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- account.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("the SDK does not end")
		}
		_ = account.Close()
	})
	return account
}
