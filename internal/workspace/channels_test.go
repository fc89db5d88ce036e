package workspace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestChannels(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		space := w.space()
		manager := w.member("manager", onSpace(space.ID), wire.LevelManage)
		w.run("a text channel has its main timeline from the same transaction", func(w *world) {
			head := w.head()
			channel, err := w.CreateChannel(ctx, manager, wire.NewChannel{SpaceID: space.ID, Kind: wire.ChannelText, Name: "general", Topic: "all"})
			require.NoError(w, err)
			events := w.since(head)
			require.Len(w, events, 2)
			require.Equal(w, eventlog.ChannelCreated, events[0].Type)
			require.Equal(w, eventlog.ThreadCreated, events[1].Type)
			thread, err := w.Thread(ctx, manager, channel.MainThreadID)
			require.NoError(w, err)
			require.Equal(w, wire.ThreadMain, thread.Kind)
			require.Equal(w, thread, payloadOf[wire.ThreadEvent](w, events[1]).Thread)
			require.Equal(w, channel, payloadOf[wire.ChannelEvent](w, events[0]).Channel)
		})
		w.run("a forum has only posts", func(w *world) {
			channel := w.channel(space.ID, wire.ChannelForum)
			require.Empty(w, channel.MainThreadID)
			require.Equal(w, wire.ThreadPost, w.start(manager, channel.ID, "post").Thread.Kind)
		})
		w.run("WS-AZ-5 a space one does not see is 422, one that one does not manage 403", func(w *world) {
			in := wire.NewChannel{SpaceID: space.ID, Kind: wire.ChannelText, Name: "x"}
			_, err := w.CreateChannel(ctx, w.person("stranger"), in)
			w.invalid("/space_id", err)
			in.SpaceID = w.env.NewID()
			_, other := w.CreateChannel(ctx, manager, in)
			require.Equal(w, err.Error(), other.Error(), "what one does not see answers like what does not exist")
			in.SpaceID = space.ID
			_, err = w.CreateChannel(ctx, w.member("reader", onSpace(space.ID), wire.LevelRead), in)
			w.refused(code.Forbidden, err)
		})
		w.run("forms are checked", func(w *world) {
			for pointer, in := range map[string]wire.NewChannel{
				"/space_id": {SpaceID: "x", Kind: wire.ChannelText, Name: "x"},
				"/kind":     {SpaceID: space.ID, Kind: "voice", Name: "x"},
				"/name":     {SpaceID: space.ID, Kind: wire.ChannelText},
				"/topic":    {SpaceID: space.ID, Kind: wire.ChannelText, Name: "x", Topic: strings.Repeat("ä", 1001)},
			} {
				_, err := w.CreateChannel(ctx, manager, in)
				w.invalid(pointer, err)
			}
		})
	})
}

func TestChannelLists(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		first, second := w.space(), w.space()
		var ids []string
		for range 5 {
			ids = append(ids, w.channel(first.ID, wire.ChannelForum).ID)
		}
		private := w.channel(second.ID, wire.ChannelText)
		member := w.member("member", onSpace(first.ID), wire.LevelRead)
		w.grant(member, onChannel(private.ID), wire.LevelWrite)
		hidden := w.channel(second.ID, wire.ChannelText)
		list := func(spaceID string) []string {
			var found []string
			for _, channel := range all(w, func(p workspace.Paging) (wire.Page[wire.Channel], error) { return w.Channels(ctx, member, spaceID, p) }) {
				found = append(found, channel.ID)
			}
			return found
		}
		w.run("WS-AZ-2 a private channel is one that is granted", func(w *world) {
			require.Equal(w, ids, list(first.ID))
			require.Equal(w, []string{private.ID}, list(second.ID))
			require.Equal(w, append(ids, private.ID), list(""))
			_, err := w.Channel(ctx, member, hidden.ID)
			w.refused(code.NotFound, err)
		})
		w.run("what lists is what snapshots show", func(w *world) {
			channels, err := storage.Read(ctx, w.db, func(tx storage.Tx) ([]wire.Channel, error) {
				snapshot, _, err := authz.Load(tx, member.Principal)
				if err != nil {
					return nil, err
				}
				spaces, err := workspace.VisibleSpaces(tx, snapshot)
				require.Len(w, spaces, 2)
				if err != nil {
					return nil, err
				}
				return workspace.VisibleChannels(tx, snapshot)
			})
			require.NoError(w, err)
			require.Len(w, channels, 6)
		})
		w.run("a cursor of something else is refused", func(w *world) {
			_, err := w.Channels(ctx, member, "", workspace.Paging{After: "x"})
			w.invalid("cursor", err)
			_, err = w.Spaces(ctx, member, workspace.Paging{After: "x"})
			w.invalid("cursor", err)
			_, err = w.Threads(ctx, member, ids[0], "", workspace.Paging{After: "12"})
			w.invalid("cursor", err)
			for _, cursor := range []string{"x", "12_x", "_" + ids[0]} {
				_, err = w.Threads(ctx, member, ids[0], "", workspace.Paging{After: cursor})
				w.invalid("cursor", err)
			}
			_, err = w.Revisions(ctx, member, w.env.NewID(), workspace.Paging{After: "x"})
			w.invalid("cursor", err)
			_, err = w.Pins(ctx, member, private.MainThreadID, workspace.Paging{After: "x"})
			w.invalid("cursor", err)
		})
		w.run("who is disabled sees nothing", func(w *world) {
			w.change(`UPDATE principals SET status = 'disabled' WHERE id = $1`, member.Principal)
			_, err := w.Channels(ctx, member, "", workspace.Paging{})
			w.refused(code.InvalidToken, err)
		})
	})
}

func TestChannelChanges(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		writer := w.member("writer", onChannel(channel.ID), wire.LevelWrite)
		w.run("a PATCH changes what it names and clears what it says", func(w *world) {
			changed, err := w.PatchChannel(ctx, w.owner, channel.ID, nil, wire.PatchChannel{Topic: text("topic")})
			require.NoError(w, err)
			require.Equal(w, "channel", changed.Name)
			require.Equal(w, "topic", changed.Topic)
			changed, err = w.PatchChannel(ctx, w.owner, channel.ID, version(2), wire.PatchChannel{Clear: []string{"topic"}})
			require.NoError(w, err)
			require.Empty(w, changed.Topic)
			require.EqualValues(w, 3, changed.Version)
			_, err = w.PatchChannel(ctx, w.owner, channel.ID, version(2), wire.PatchChannel{Name: text("x")})
			w.refused(code.VersionConflict, err)
			_, err = w.PatchChannel(ctx, w.owner, channel.ID, nil, wire.PatchChannel{Clear: []string{"name"}})
			w.invalid("/clear", err)
			_, err = w.PatchChannel(ctx, w.owner, channel.ID, nil, wire.PatchChannel{Clear: []string{"topic"}, Topic: text("x")})
			w.invalid("/clear", err)
		})
		w.run("WS-AZ-2 read only caps below manage", func(w *world) {
			readOnly := true
			_, err := w.PatchChannel(ctx, w.owner, channel.ID, nil, wire.PatchChannel{ReadOnly: &readOnly})
			require.NoError(w, err)
			_, _, err = w.CreateMessage(ctx, writer, channel.MainThreadID, w.message("x"))
			w.refused(code.Forbidden, err)
			w.say(w.owner, channel.MainThreadID, "news")
		})
	})
}

func TestChannelSettings(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx := w.Context()
		channel := w.text()
		agent := w.principal(wire.KindAgent, "helper")
		put := wire.PutSettings{
			Prompt: "Be kind.", Agents: []wire.ChannelAgent{{AgentID: agent.Principal, Respond: "mention"}},
			BackendPolicy: json.RawMessage(`{"max_tool_class":"read"}`),
		}
		w.run("ES-2.2 the event names the version only", func(w *world) {
			head := w.head()
			settings, err := w.PutChannelSettings(ctx, w.owner, channel.ID, version(1), put)
			require.NoError(w, err)
			require.EqualValues(w, 2, settings.SettingsVersion)
			events := w.since(head)
			require.Len(w, events, 1)
			require.JSONEq(w, `{"channel_id":"`+channel.ID+`","settings_version":2}`, string(events[0].Payload))
			require.Zero(w, events[0].Resource.Version, "ES-9.3")
			got, err := w.ChannelSettings(ctx, w.owner, channel.ID)
			require.NoError(w, err)
			require.Equal(w, settings, got)
		})
		w.run("their version is not the channel's", func(w *world) {
			now, err := w.Channel(ctx, w.owner, channel.ID)
			require.NoError(w, err)
			require.EqualValues(w, 1, now.Version)
			require.EqualValues(w, 2, now.SettingsVersion)
			_, err = w.PutChannelSettings(ctx, w.owner, channel.ID, version(1), put)
			w.refused(code.VersionConflict, err)
		})
		w.run("only who manages the channel sees them", func(w *world) {
			_, err := w.ChannelSettings(ctx, w.member("writer", onChannel(channel.ID), wire.LevelWrite), channel.ID)
			w.refused(code.Forbidden, err)
			_, err = w.ChannelSettings(ctx, w.person("stranger"), channel.ID)
			w.refused(code.NotFound, err)
		})
		w.run("WS-AZ-5 an agent that the caller does not see is none, unless it is set already", func(w *world) {
			manager := w.member("manager", onChannel(channel.ID), wire.LevelManage)
			hidden := w.principal(wire.KindAgent, "hidden")
			in := wire.PutSettings{Agents: []wire.ChannelAgent{put.Agents[0], {AgentID: hidden.Principal, Respond: "off"}}}
			_, err := w.PutChannelSettings(ctx, manager, channel.ID, nil, in)
			w.invalid("/agents/1/agent_id", err)
			w.grant(hidden, onChannel(channel.ID), wire.LevelRead)
			_, err = w.PutChannelSettings(ctx, manager, channel.ID, nil, in)
			require.NoError(w, err)
		})
		w.run("forms are checked", func(w *world) {
			twice := []wire.ChannelAgent{{AgentID: agent.Principal, Respond: "off"}, {AgentID: agent.Principal, Respond: "off"}}
			for pointer, in := range map[string]wire.PutSettings{
				"/prompt":            {Prompt: strings.Repeat("p", 20_001)},
				"/agents/0/respond":  {Agents: []wire.ChannelAgent{{AgentID: agent.Principal, Respond: "never"}}},
				"/agents/0/agent_id": {Agents: []wire.ChannelAgent{{AgentID: w.owner.Principal, Respond: "off"}}},
				"/agents/1/agent_id": {Agents: twice},
				"/agents":            {Agents: make([]wire.ChannelAgent, 101)},
				"/backend_policy":    {BackendPolicy: json.RawMessage(`[1]`)},
			} {
				_, err := w.PutChannelSettings(ctx, w.owner, channel.ID, nil, in)
				w.invalid(pointer, err)
			}
		})
		w.run("ES-5.2 a repeat answers what there is", func(w *world) {
			by := w.keyed(w.owner, "h")
			first, err := w.PutChannelSettings(ctx, by, channel.ID, nil, wire.PutSettings{})
			require.NoError(w, err)
			again, err := w.PutChannelSettings(ctx, by, channel.ID, version(2), wire.PutSettings{})
			require.NoError(w, err, "a repeat comes before If-Match")
			require.Equal(w, first, again)
		})
	})
}
