package server_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func device(t *testing.T, node *servertest.Server, who servertest.Account) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: node.URL, Key: who.Key, Device: client.Device{ID: env.Real().RandomID(), Platform: wire.PlatformCLI, Name: "test"}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestOneSession(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		node := servertest.Start(t, db, nil)
		owner := node.Account(t, "owner")
		c := device(t, node, owner)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		made, err := c.CreateSession(ctx, client.NewSession{})
		require.NoError(t, err)
		_, err = c.ClaimLease(ctx, made.ID, client.Claim{})
		require.NoError(t, err)
		receipt, err := c.AppendEvents(ctx, made.ID, client.Append{Events: []wire.IncomingEvent{{Kind: "user", Payload: json.RawMessage(`{"a": 1e400}`)}, {Kind: "x"}}})
		require.NoError(t, err)
		require.EqualValues(t, 2, receipt.LastSeq)
		for _, transport := range []client.Transport{client.SSE, client.WebSocket} {
			viewer := device(t, node, owner).View(made.ID, client.ViewOptions{Transport: transport})
			var kinds []string
			stop := context.Canceled
			err := viewer.Run(ctx, func(f client.Frame) error {
				if e, ok := f.(client.EventFrame); ok {
					kinds = append(kinds, e.Kind)
					if len(kinds) == 3 {
						return stop
					}
					if len(kinds) == 2 {
						_, err := c.SendControl(ctx, made.ID, wire.IncomingControl{ID: client.NewID(), Kind: wire.ControlPause})
						return err
					}
				}
				return nil
			})
			require.ErrorIs(t, err, stop)
			t.Log(kinds)
		}
	})
}
