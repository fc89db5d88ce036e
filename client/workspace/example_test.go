package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
)

// A person on one device: sign in once, follow a thread, and send something that survives the end of the process.
func ExampleAccount() {
	follow := func(ctx context.Context, url, folder, loginCode, device, thread string) error {
		store, keys, err := localstore.OpenIn(folder) // one encrypted file, its keys beside it
		if err != nil {
			return err
		}
		account, err := workspace.OpenAccount(ctx, workspace.AccountConfig{
			Client: workspace.Config{BaseURL: url, Device: workspace.Device{ID: device, Name: "laptop", Platform: "cli"}, Keys: keys},
			Store:  store,
			OnEvent: func(e workspace.Event) {
				fmt.Println(e.Seq, e.Type)
			},
		})
		if err != nil {
			return errors.Join(err, store.Close())
		}
		defer func() { _ = account.Close() }()
		if loginCode != "" {
			if _, err := account.Client().SignIn(ctx, workspace.LoginCode(loginCode)); err != nil {
				return err
			}
		}
		ctx, stop := context.WithCancel(ctx)
		ran := make(chan error, 1)
		go func() { ran <- account.Run(ctx) }() // connects, keeps the copy up to date, sends the outbox
		defer func() { stop(); <-ran }()

		account.OpenThread(thread)
		patience, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := account.Settle(patience); err != nil { // live, and everything wanted is loaded; or why Run ended
			return err
		}
		for _, message := range account.State().Messages(thread) {
			fmt.Println(message.ThreadSeq, message.ContentMD)
		}
		if _, err := account.Outbox().Send(ctx, thread, workspace.Text{ContentMD: "hello"}); err != nil { // stored before it is sent
			return err
		}
		return account.Outbox().Idle(patience) // everything was sent
	}
	_ = follow // it needs a server
	// Output:
}
