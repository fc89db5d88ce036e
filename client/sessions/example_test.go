package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// exampleServer stands in for `cairn serve`.
func exampleServer() (client *sessions.Client, closeAll func()) {
	server := httptest.NewServer(newFake())
	client, err := sessions.New(sessions.Config{
		BaseURL: server.URL,
		Key:     "codai_example",
		Device:  sessions.Device{ID: mine, Platform: wire.PlatformCLI, Name: "laptop"},
	})
	if err != nil {
		panic(err)
	}
	return client, func() { client.Close(); server.CloseClientConnections(); server.Close() }
}

// An executor answers each `send` with a turn of its own, and gives the lease back when it is done. A dispatch that
// only asks to open the session comes as a `send` without text: there is no turn to begin then.
func Example_execute() {
	client, closeAll := exampleServer()
	defer closeAll()
	ctx := context.Background()

	turns := make(chan wire.Control, 1)
	executor, err := client.Execute(ctx, sessionID, sessions.ExecutorOptions{
		OnControl: func(ctx context.Context, control wire.Control) error {
			if control.Kind != wire.ControlSend || control.Text == nil {
				return nil
			}
			select {
			case turns <- control: // the turn runs elsewhere; `cancel` must be able to arrive
				return nil
			case <-ctx.Done():
				return sessions.ErrLeavePending
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := "hello"
	if _, err := client.SendControl(ctx, sessionID, wire.IncomingControl{Kind: wire.ControlSend, Text: &hello}); err != nil {
		fmt.Println(err)
		return
	}

	asked := <-turns
	for _, payload := range []trace.Payload{
		trace.TurnStart{Text: *asked.Text, ControlID: asked.ID},
		trace.Assistant{Text: "Hello yourself.", Final: true},
		trace.TurnEnd{Status: trace.TurnCompleted},
	} {
		event, err := trace.New("turn-1", payload)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := executor.Emit(executor.Context(), event); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("stopped:", executor.Stop(ctx))

	for event, err := range client.AllEvents(ctx, sessionID, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(event.Seq, event.Kind)
	}
	// Output:
	// stopped: <nil>
	// 1 control
	// 2 turn_start
	// 3 assistant
	// 4 turn_end
}

// A viewer shows what happens, from the start and across lost connections.
func Example_view() {
	client, closeAll := exampleServer()
	defer closeAll()
	ctx := context.Background()
	executor, err := client.Execute(ctx, sessionID, sessions.ExecutorOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, payload := range []trace.Payload{
		trace.Assistant{Text: "Tests pass."}, trace.TurnEnd{Status: trace.TurnCompleted},
	} {
		if err := executor.Emit(ctx, trace.Must("turn-1", payload)); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := executor.Stop(ctx); err != nil {
		fmt.Println(err)
		return
	}

	for frame, err := range client.View(sessionID, sessions.ViewOptions{}).Frames(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		event, isEvent := frame.(sessions.EventFrame)
		if !isEvent {
			continue
		}
		payload, err := trace.Read(event.Event)
		if err != nil {
			fmt.Println(err)
			return
		}
		switch payload := payload.(type) {
		case trace.Assistant:
			fmt.Println(event.Seq, payload.Text)
		case trace.TurnEnd:
			fmt.Println(event.Seq, payload.Status)
			return
		}
	}
	// Output:
	// 1 Tests pass.
	// 2 completed
}

// A payload that only two devices can read.
func ExampleSeal() {
	phone, err := sessions.NewIdentity()
	if err != nil {
		fmt.Println(err)
		return
	}
	laptop, err := sessions.NewIdentity()
	if err != nil {
		fmt.Println(err)
		return
	}
	box, err := sessions.Seal(json.RawMessage(`{"text":"secret"}`), []string{phone.Recipient, laptop.Recipient})
	if err != nil {
		fmt.Println(err)
		return
	}
	plain, err := sessions.Open(box, phone.Secret)
	fmt.Println(sessions.IsSealed(box), string(plain), err)
	// Output: true {"text":"secret"} <nil>
}
