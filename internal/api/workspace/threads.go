package workspace

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) threadRoutes() []Route {
	const tag, of, one = "threads", Prefix + "/channels/{id}/threads", Prefix + "/threads/{id}"
	states := []string{string(wire.ThreadOpen), string(wire.ThreadDone)}
	return []Route{
		{
			Method: get, Path: of, Action: action.ThreadRead, Tag: tag, Summary: "The threads of a channel, the latest activity first",
			Query: paged(Param{Name: "state", Doc: "in this state only", Kind: Choice, Values: states}), handler: giving(okay, a.threads),
		},
		{
			Method: post, Path: of, Action: action.ThreadCreate, Tag: tag, Summary: "Start a thread or post with its first message",
			Unkeyed: true, Replays: true, handler: taking(created, a.createThread),
		},
		{Method: get, Path: one, Action: action.ThreadRead, Tag: tag, Summary: "A thread", handler: giving(okay, a.thread)},
		{
			Method: patch, Path: one, Action: action.ThreadWrite, Tag: tag, Summary: "Rename a thread",
			IfMatch: Optional, handler: taking(okay, a.patchThread),
		},
		{
			Method: post, Path: one + "/done", Action: action.ThreadWrite, Tag: tag, Summary: "Mark a thread as done",
			IfMatch: Optional, handler: taking(okay, a.closeThread),
		},
		{
			Method: post, Path: one + "/reopen", Action: action.ThreadWrite, Tag: tag, Summary: "Open a thread again",
			IfMatch: Optional, handler: taking(okay, a.reopenThread),
		},
		{
			Method: post, Path: one + "/move", Action: action.ThreadMove, Tag: tag, Summary: "Move a thread to another channel",
			IfMatch: Optional, handler: taking(okay, a.moveThread),
		},
	}
}

func (a *API) threads(c *call) (wire.Page[wire.Thread], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Thread], error) {
		return a.Workspace.Threads(c.Context(), c.by, c.id("id"), wire.ThreadState(c.params.texts["state"]), p)
	})
}

func (a *API) createThread(c *call, in wire.NewThread) (started wire.ThreadStarted, err error) {
	started, c.replayed, err = a.Workspace.StartThread(c.Context(), c.by, c.id("id"), in)
	return started, err
}

func (a *API) thread(c *call) (wire.Thread, error) {
	return a.Workspace.Thread(c.Context(), c.by, c.id("id"))
}

func (a *API) patchThread(c *call, in wire.PatchThread) (wire.Thread, error) {
	return a.Workspace.PatchThread(c.Context(), c.by, c.id("id"), c.version, in)
}

func (a *API) closeThread(c *call, _ Nothing) (wire.Thread, error) {
	return a.Workspace.CloseThread(c.Context(), c.by, c.id("id"), c.version)
}

func (a *API) reopenThread(c *call, _ Nothing) (wire.Thread, error) {
	return a.Workspace.ReopenThread(c.Context(), c.by, c.id("id"), c.version)
}

func (a *API) moveThread(c *call, in wire.MoveThread) (wire.Thread, error) {
	return a.Workspace.MoveThread(c.Context(), c.by, c.id("id"), c.version, in)
}
