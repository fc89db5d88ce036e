package workspace

import (
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func (a *API) personalRoutes() []Route {
	return append(a.readRoutes(), a.preferenceRoutes()...)
}

func (a *API) readRoutes() []Route {
	const tag, states, drafts = "personal", Prefix + "/read-states", Prefix + "/drafts"
	return []Route{
		{
			Method: get, Path: states, Action: action.SelfRead, Tag: tag, Summary: "How far the caller has read the threads it may read",
			Query: paged(), handler: giving(okay, a.readStates),
		},
		{
			Method: get, Path: states + "/{thread_id}", Action: action.PersonalRead, Tag: tag, Summary: "How far the caller has read a thread",
			handler: giving(okay, a.readState),
		},
		{
			Method: put, Path: states + "/{thread_id}", Action: action.PersonalWrite, Tag: tag, Summary: "Move a read state forward",
			IfMatch: Optional, handler: taking(okay, a.putReadState),
		},
		{
			Method: post, Path: states + "/{thread_id}/reset", Action: action.PersonalWrite, Tag: tag, Summary: "Set a read state, also backwards",
			IfMatch: Required, handler: taking(okay, a.resetReadState),
		},
		{
			Method: get, Path: drafts, Action: action.SelfRead, Tag: tag, Summary: "The caller's drafts, of threads it may read",
			Query: paged(), handler: giving(okay, a.drafts),
		},
		{
			Method: get, Path: drafts + "/{thread_id}", Action: action.PersonalRead, Tag: tag, Summary: "The caller's draft of a thread",
			handler: giving(okay, a.draft),
		},
		{
			Method: put, Path: drafts + "/{thread_id}", Action: action.PersonalWrite, Tag: tag, Summary: "Save a draft; an empty one is deleted",
			IfMatch: Optional, handler: taking(okay, a.putDraft),
		},
		{
			Method: remove, Path: drafts + "/{thread_id}", Action: action.PersonalWrite, Tag: tag, Summary: "Delete a draft",
			IfMatch: Optional, handler: doing(a.deleteDraft),
		},
	}
}

func (a *API) preferenceRoutes() []Route {
	const (
		tag      = "personal"
		settings = Prefix + "/settings"
		sidebar  = Prefix + "/spaces/{id}/sidebar"
		prefs    = Prefix + "/notification-prefs"
		quiet    = Prefix + "/quiet-hours"
	)
	return []Route{
		{Method: get, Path: settings, Action: action.SelfRead, Tag: tag, Summary: "The caller's settings", Query: paged(), handler: giving(okay, a.settings)},
		{Method: get, Path: settings + "/{key}", Action: action.SelfRead, Tag: tag, Summary: "A setting", handler: giving(okay, a.setting)},
		{
			Method: put, Path: settings + "/{key}", Action: action.SelfWrite, Tag: tag, Summary: "Set a setting",
			IfMatch: Optional, handler: taking(okay, a.putSetting),
		},
		{
			Method: remove, Path: settings + "/{key}", Action: action.SelfWrite, Tag: tag, Summary: "Delete a setting",
			IfMatch: Optional, handler: doing(a.deleteSetting),
		},
		{Method: get, Path: sidebar, Action: action.SpaceRead, Tag: tag, Summary: "How the caller arranged a space", handler: giving(okay, a.sidebar)},
		{
			Method: put, Path: sidebar, Action: action.SelfWrite, Tag: tag, Summary: "Arrange a space",
			IfMatch: Optional, handler: taking(okay, a.putSidebar),
		},
		{
			Method: get, Path: prefs, Action: action.SelfRead, Tag: tag, Summary: "What the caller wants to be told",
			Query: paged(), handler: giving(okay, a.notificationPrefs),
		},
		{
			Method: put, Path: prefs + "/{kind}/{id}", Action: action.SelfWrite, Tag: tag, Summary: "Say what to be told about a space, channel or thread",
			IfMatch: Optional, handler: taking(okay, a.putNotificationPref),
		},
		{Method: get, Path: quiet, Action: action.SelfRead, Tag: tag, Summary: "When the caller does not want to be told", handler: giving(okay, a.quietHours)},
		{
			Method: put, Path: quiet, Action: action.SelfWrite, Tag: tag, Summary: "Say when not to be told",
			IfMatch: Optional, handler: taking(okay, a.putQuietHours),
		},
	}
}

func (a *API) readStates(c *call) (wire.Page[wire.ReadState], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.ReadState], error) {
		return a.Personal.ReadStates(c.Context(), c.by, p)
	})
}

func (a *API) readState(c *call) (wire.ReadState, error) {
	return a.Personal.ReadState(c.Context(), c.by, c.id("thread_id"))
}

func (a *API) putReadState(c *call, in wire.PutReadState) (wire.ReadState, error) {
	return a.Personal.PutReadState(c.Context(), c.by, c.id("thread_id"), c.version, in)
}

func (a *API) resetReadState(c *call, in wire.PutReadState) (wire.ReadState, error) {
	return a.Personal.ResetReadState(c.Context(), c.by, c.id("thread_id"), c.version, in)
}

func (a *API) drafts(c *call) (wire.Page[wire.Draft], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Draft], error) { return a.Personal.Drafts(c.Context(), c.by, p) })
}

func (a *API) draft(c *call) (wire.Draft, error) {
	return a.Personal.Draft(c.Context(), c.by, c.id("thread_id"))
}

func (a *API) putDraft(c *call, in wire.PutDraft) (wire.Draft, error) {
	return a.Personal.PutDraft(c.Context(), c.by, c.id("thread_id"), c.version, in)
}

func (a *API) deleteDraft(c *call) error {
	return a.Personal.DeleteDraft(c.Context(), c.by, c.id("thread_id"), c.version)
}

func (a *API) settings(c *call) (wire.Page[wire.Setting], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.Setting], error) {
		return a.Personal.Settings(c.Context(), c.by, p)
	})
}

func (a *API) setting(c *call) (wire.Setting, error) {
	return a.Personal.Setting(c.Context(), c.by, c.id("key"))
}

func (a *API) putSetting(c *call, in wire.PutSetting) (wire.Setting, error) {
	return a.Personal.PutSetting(c.Context(), c.by, c.id("key"), c.version, in)
}

func (a *API) deleteSetting(c *call) error {
	return a.Personal.DeleteSetting(c.Context(), c.by, c.id("key"), c.version)
}

func (a *API) sidebar(c *call) (wire.Sidebar, error) {
	return a.Personal.Sidebar(c.Context(), c.by, c.id("id"))
}

func (a *API) putSidebar(c *call, in wire.PutSidebar) (wire.Sidebar, error) {
	return a.Personal.PutSidebar(c.Context(), c.by, c.id("id"), c.version, in)
}

func (a *API) notificationPrefs(c *call) (wire.Page[wire.NotificationPref], error) {
	return listing(c, func(p place.Paging) (wire.Page[wire.NotificationPref], error) {
		return a.Personal.NotificationPrefs(c.Context(), c.by, p)
	})
}

func (a *API) putNotificationPref(c *call, in wire.PutNotificationPref) (wire.NotificationPref, error) {
	return a.Personal.PutNotificationPref(c.Context(), c.by, c.id("kind"), c.id("id"), c.version, in)
}

func (a *API) quietHours(c *call) (wire.QuietHours, error) {
	return a.Personal.QuietHours(c.Context(), c.by)
}

func (a *API) putQuietHours(c *call, in wire.PutQuietHours) (wire.QuietHours, error) {
	return a.Personal.PutQuietHours(c.Context(), c.by, c.version, in)
}
