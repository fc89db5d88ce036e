package workspace

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) messageRoutes() []Route {
	const tag, of, one = "messages", Prefix + "/threads/{id}/messages", Prefix + "/messages/{id}"
	window := []Param{
		{Name: "before", Doc: "the newest below this thread_seq", Kind: Number},
		{Name: "after", Doc: "the oldest above this thread_seq", Kind: Number},
		{Name: "around", Doc: "those on both sides of this thread_seq", Kind: Number},
		limitParam,
	}
	return []Route{
		{
			Method: get, Path: of, Action: action.MessageRead, Tag: tag, Summary: "Messages of a thread, ascending; without a place the newest",
			Query: window, handler: giving(okay, a.messages),
		},
		{
			Method: post, Path: of, Action: action.MessageCreate, Tag: tag, Summary: "Send a message",
			Unkeyed: true, Replays: true, handler: taking(created, a.createMessage),
		},
		{Method: get, Path: one, Action: action.MessageRead, Tag: tag, Summary: "A message", handler: giving(okay, a.message)},
		{
			Method: patch, Path: one, Action: action.MessageEdit, Tag: tag, Summary: "Change the wording of one's own message",
			IfMatch: Required, handler: taking(okay, a.editMessage),
		},
		{Method: remove, Path: one, Action: action.MessageDelete, Tag: tag, Summary: "Delete a message", handler: doing(a.deleteMessage)},
		{
			Method: get, Path: one + "/revisions", Action: action.MessageRead, Tag: tag, Summary: "The wordings of a message, the oldest first",
			Query: paged(), handler: giving(okay, a.revisions),
		},
		{Method: put, Path: one + "/reactions/{emoji}", Action: action.ReactionWrite, Tag: tag, Summary: "React to a message", handler: doing(a.react)},
		{
			Method: remove, Path: one + "/reactions/{emoji}", Action: action.ReactionWrite, Tag: tag, Summary: "Take a reaction back",
			handler: doing(a.unreact),
		},
		{
			Method: get, Path: Prefix + "/threads/{id}/pins", Action: action.MessageRead, Tag: tag, Summary: "The pinned messages of a thread",
			Query: paged(), handler: giving(okay, a.pins),
		},
		{
			Method: put, Path: Prefix + "/threads/{id}/pins/{message_id}", Action: action.PinWrite, Tag: tag, Summary: "Pin a message",
			handler: doing(a.pin),
		},
		{
			Method: remove, Path: Prefix + "/threads/{id}/pins/{message_id}", Action: action.PinWrite, Tag: tag, Summary: "Take a pin back",
			handler: doing(a.unpin),
		},
	}
}

func (a *API) messages(c *call) (wire.Messages, error) {
	return a.Workspace.Messages(c.Context(), c.by, c.id("id"), workspace.MessageQuery{
		Before: c.params.optional("before"), After: c.params.optional("after"), Around: c.params.optional("around"), Limit: c.limit(),
	})
}

func (a *API) createMessage(c *call, in wire.NewMessage) (message wire.Message, err error) {
	message, c.replayed, err = a.Workspace.CreateMessage(c.Context(), c.by, c.id("id"), in)
	return message, err
}

func (a *API) message(c *call) (wire.Message, error) {
	return a.Workspace.Message(c.Context(), c.by, c.id("id"))
}

func (a *API) editMessage(c *call, in wire.EditMessage) (wire.Message, error) {
	return a.Workspace.EditMessage(c.Context(), c.by, c.id("id"), c.version, in)
}

func (a *API) deleteMessage(c *call) error {
	return a.Workspace.DeleteMessage(c.Context(), c.by, c.id("id"))
}

func (a *API) revisions(c *call) (wire.Page[wire.Revision], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Revision], error) {
		return a.Workspace.Revisions(c.Context(), c.by, c.id("id"), p)
	})
}

func (a *API) react(c *call) error {
	return a.Workspace.AddReaction(c.Context(), c.by, c.id("id"), c.id("emoji"))
}

func (a *API) unreact(c *call) error {
	return a.Workspace.RemoveReaction(c.Context(), c.by, c.id("id"), c.id("emoji"))
}

func (a *API) pins(c *call) (wire.Page[wire.Message], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Message], error) {
		return a.Workspace.Pins(c.Context(), c.by, c.id("id"), p)
	})
}

func (a *API) pin(c *call) error {
	return a.Workspace.Pin(c.Context(), c.by, c.id("id"), c.id("message_id"))
}

func (a *API) unpin(c *call) error {
	return a.Workspace.Unpin(c.Context(), c.by, c.id("id"), c.id("message_id"))
}
