package acp

import (
	"context"
	"encoding/json"
	"errors"

	acpsdk "github.com/coder/acp-go-sdk"
)

// errWithdrawn is why the context of a permission ended: the prompt was cancelled.
var errWithdrawn = errors.New("the prompt was cancelled")

// serve answers one request of the agent. The SDK calls it, each time in a goroutine of its own.
//
// The parameters are decoded here and not by the SDK's client side, which refuses to write an empty file.
func (a *Agent) serve(ctx context.Context, method string, params json.RawMessage) (any, *acpsdk.RequestError) {
	defer a.gate.served(len(params))
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	defer a.touch() // the agent's silence begins when it has what it waited for
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.alive, cancel)()
	switch method {
	case acpsdk.ClientMethodSessionRequestPermission:
		return answer(params, func(p permissionRequest) (acpsdk.RequestPermissionResponse, error) {
			return a.permission(ctx, p.RequestPermissionRequest)
		})
	case acpsdk.ClientMethodFsReadTextFile:
		return step(ctx, a, params, a.files.read)
	case acpsdk.ClientMethodFsWriteTextFile:
		return step(ctx, a, params, a.files.write)
	case acpsdk.ClientMethodTerminalCreate:
		return step(ctx, a, params, a.terminals.create)
	case acpsdk.ClientMethodTerminalOutput:
		return step(ctx, a, params, a.terminals.output)
	case acpsdk.ClientMethodTerminalWaitForExit:
		return step(ctx, a, params, a.terminals.waitForExit)
	case acpsdk.ClientMethodTerminalKill:
		return step(ctx, a, params, a.terminals.kill)
	case acpsdk.ClientMethodTerminalRelease:
		return step(ctx, a, params, a.terminals.release)
	default:
		return nil, acpsdk.NewMethodNotFound(method)
	}
}

// step serves a file or terminal request, when the Handler lets it.
func step[P, R any](ctx context.Context, a *Agent, params json.RawMessage, serve func(context.Context, P) (R, error)) (any, *acpsdk.RequestError) {
	return answer(params, func(p P) (R, error) {
		if err := a.o.Handler.Step(ctx); err != nil {
			var none R
			return none, err
		}
		return serve(ctx, p)
	})
}

// answer decodes, serves, and makes of an error what the protocol has for it.
func answer[P, R any](params json.RawMessage, serve func(P) (R, error)) (any, *acpsdk.RequestError) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, acpsdk.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	result, err := serve(p)
	if err == nil {
		return result, nil
	}
	var told *acpsdk.RequestError
	switch {
	case errors.As(err, &told):
		return nil, told
	case errors.Is(err, context.Canceled):
		return nil, acpsdk.NewRequestCancelled(map[string]any{"error": err.Error()})
	default:
		return nil, &acpsdk.RequestError{Code: refused, Message: err.Error()}
	}
}

// refused is the JSON-RPC code of what was asked for and cannot be done; its message says why.
const refused = -32603

// permission asks the Handler. Whatever it says, a cancelled prompt gets "cancelled", as the protocol demands.
func (a *Agent) permission(ctx context.Context, p acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
	cancelled := acpsdk.RequestPermissionResponse{Outcome: acpsdk.NewRequestPermissionOutcomeCancelled()}
	ctx, closeAsk, open := a.openAsk(ctx)
	defer closeAsk()
	if !open {
		return cancelled, nil
	}
	response, err := a.o.Handler.Permission(ctx, p)
	switch {
	case errors.Is(context.Cause(ctx), errWithdrawn):
		return cancelled, nil
	case ctx.Err() != nil:
		return cancelled, ctx.Err()
	default:
		return response, err
	}
}

// openAsk makes the context of a permission; open is false when the prompt it belongs to was cancelled before.
func (a *Agent) openAsk(ctx context.Context) (_ context.Context, closeAsk func(), open bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancelled {
		return ctx, func() { cancel(nil) }, false
	}
	a.nextAsk++
	id := a.nextAsk
	a.asks[id] = cancel
	return ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.asks, id)
		cancel(nil)
	}, true
}
