package workspace

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Nothing is a body that says nothing.
type Nothing struct{}

func (a *API) channelRoutes() []Route {
	const tag, all, one = "channels", Prefix + "/channels", Prefix + "/channels/{id}"
	return []Route{
		{
			Method: get, Path: all, Action: action.SelfRead, Tag: tag, Summary: "The channels the caller sees",
			Query: paged(Param{Name: "space_id", Doc: "of this space only", Kind: ID}), handler: giving(okay, a.channels),
		},
		{Method: post, Path: all, Action: action.ChannelCreate, Tag: tag, Summary: "Make a channel", handler: taking(created, a.createChannel)},
		{Method: get, Path: one, Action: action.ChannelRead, Tag: tag, Summary: "A channel", handler: giving(okay, a.channel)},
		{
			Method: patch, Path: one, Action: action.ChannelManage, Tag: tag, Summary: "Change a channel",
			IfMatch: Optional, handler: taking(okay, a.patchChannel),
		},
		{
			Method: post, Path: one + "/archive", Action: action.ChannelArchive, Tag: tag, Summary: "Archive a channel: it can be read only",
			IfMatch: Optional, handler: taking(okay, a.archiveChannel),
		},
		{
			Method: post, Path: one + "/unarchive", Action: action.ChannelArchive, Tag: tag, Summary: "Take a channel out of the archive",
			IfMatch: Optional, handler: taking(okay, a.unarchiveChannel),
		},
		{
			Method: get, Path: one + "/settings", Action: action.SettingsRead, Tag: tag, Summary: "What only those who manage the channel see",
			handler: giving(okay, a.channelSettings),
		},
		{
			Method: put, Path: one + "/settings", Action: action.SettingsManage, Tag: tag, Summary: "Replace the settings of a channel",
			IfMatch: Optional, handler: taking(okay, a.putChannelSettings),
		},
	}
}

func (a *API) channels(c *call) (wire.Page[wire.Channel], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Channel], error) {
		return a.Workspace.Channels(c.Context(), c.by, c.params.texts["space_id"], p)
	})
}

func (a *API) createChannel(c *call, in wire.NewChannel) (wire.Channel, error) {
	return a.Workspace.CreateChannel(c.Context(), c.by, in)
}

func (a *API) channel(c *call) (wire.Channel, error) {
	return a.Workspace.Channel(c.Context(), c.by, c.id("id"))
}

func (a *API) patchChannel(c *call, in wire.PatchChannel) (wire.Channel, error) {
	return a.Workspace.PatchChannel(c.Context(), c.by, c.id("id"), c.version, in)
}

func (a *API) archiveChannel(c *call, _ Nothing) (wire.Channel, error) {
	return a.Workspace.ArchiveChannel(c.Context(), c.by, c.id("id"), c.version)
}

func (a *API) unarchiveChannel(c *call, _ Nothing) (wire.Channel, error) {
	return a.Workspace.UnarchiveChannel(c.Context(), c.by, c.id("id"), c.version)
}

func (a *API) channelSettings(c *call) (wire.ChannelSettings, error) {
	return a.Workspace.ChannelSettings(c.Context(), c.by, c.id("id"))
}

func (a *API) putChannelSettings(c *call, in wire.PutSettings) (wire.ChannelSettings, error) {
	return a.Workspace.PutChannelSettings(c.Context(), c.by, c.id("id"), c.version, in)
}
