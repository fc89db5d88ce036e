package workspace

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// ChannelSettings answers what only those who manage a channel see.
func (s *Service) ChannelSettings(ctx context.Context, by authz.Caller, id string) (wire.ChannelSettings, error) {
	id, err := place.PathID("Channel", id)
	if err != nil {
		return wire.ChannelSettings{}, err
	}
	return storage.Read(ctx, s.db, func(tx storage.Tx) (wire.ChannelSettings, error) {
		// Those of an archived channel stay readable for who manages it.
		if _, _, err := AuthorizedChannel(tx, by, action.SettingsRead, id); err != nil {
			return wire.ChannelSettings{}, err
		}
		return settingsOf(tx, id)
	})
}

func settingsOf(tx storage.Tx, id string) (wire.ChannelSettings, error) {
	settings := wire.ChannelSettings{}
	var stored []byte
	var version int64
	_, err := tx.Get(`SELECT settings, settings_version FROM channels WHERE id = $1`, []any{id}, &stored, &version)
	if err != nil {
		return settings, fmt.Errorf("read settings of channel: %w", err)
	}
	if err := json.Unmarshal(stored, &settings); err != nil {
		return settings, fmt.Errorf("decode settings of channel: %w", err)
	}
	settings.ChannelID, settings.SettingsVersion = id, version
	return settings, nil
}

// PutChannelSettings replaces the settings of a channel. Their version is their own: the channel's stays
// (ES-9.3). ifMatch is honoured and names the settings' version.
func (s *Service) PutChannelSettings(
	ctx context.Context, by authz.Caller, id string, ifMatch *int64, in wire.PutSettings,
) (wire.ChannelSettings, error) {
	if err := checkSettings(&in); err != nil {
		return wire.ChannelSettings{}, err
	}
	id, err := place.PathID("Channel", id)
	if err != nil {
		return wire.ChannelSettings{}, err
	}
	keys := []storage.Key{by.Lock(), {Lock: storage.LockChannels, ID: id}}
	return storage.Write(ctx, s.db, keys, func(tx storage.Tx) (wire.ChannelSettings, error) {
		channel, _, err := AuthorizedChannel(tx, by, action.SettingsManage, id)
		if err != nil {
			return wire.ChannelSettings{}, err
		}
		change := func() (wire.ChannelSettings, error) {
			current, err := settingsOf(tx, id)
			if err != nil {
				return current, err
			}
			if err := place.RequireVersion(ifMatch, current.SettingsVersion, current); err != nil {
				return current, err
			}
			if err := requireAgents(tx, by, current.Agents, in.Agents); err != nil {
				return current, err
			}
			return s.storeSettings(tx, by, channel, in)
		}
		channelID := func(c wire.ChannelSettings) string { return c.ChannelID }
		return idempotency.OnceByID(tx, by.Key, change, channelID, func(id string) (wire.ChannelSettings, error) { return settingsOf(tx, id) })
	})
}

func checkSettings(in *wire.PutSettings) error {
	if err := place.Text("/prompt", in.Prompt, maxPrompt); err != nil {
		return err
	}
	if len(in.Agents) > maxAgents {
		return fault.Invalid("/agents", "must name at most %d agents", maxAgents)
	}
	seen := make(map[string]bool, len(in.Agents))
	for i := range in.Agents {
		agent := &in.Agents[i]
		pointer := fmt.Sprintf("/agents/%d/", i)
		id, err := place.BodyID(pointer+"agent_id", agent.AgentID)
		switch {
		case err != nil:
			return err
		case seen[id]:
			return fault.Invalid(pointer+"agent_id", "stands twice")
		case agent.Respond != "mention" && agent.Respond != "always" && agent.Respond != "off":
			return fault.Invalid(pointer+"respond", "must be mention, always or off")
		}
		agent.AgentID, seen[id] = id, true
	}
	return checkPolicy(in)
}

func checkPolicy(in *wire.PutSettings) (err error) {
	const pointer = "/backend_policy"
	if len(in.BackendPolicy) == 0 {
		return nil
	}
	if in.BackendPolicy, err = place.JSON(pointer, in.BackendPolicy, maxPolicy); err != nil {
		return err
	}
	if in.BackendPolicy[0] != '{' {
		return fault.Invalid(pointer, "must be an object")
	}
	return nil
}

func (s *Service) storeSettings(tx storage.Tx, by authz.Caller, channel PlacedChannel, in wire.PutSettings) (wire.ChannelSettings, error) {
	encoded, err := json.Marshal(in)
	if err != nil {
		return wire.ChannelSettings{}, fmt.Errorf("encode settings of channel: %w", err)
	}
	version := channel.SettingsVersion + 1
	if err := tx.Exec(`UPDATE channels SET settings = $2, settings_version = $3 WHERE id = $1`, channel.ID, encoded, version); err != nil {
		return wire.ChannelSettings{}, fmt.Errorf("store settings of channel: %w", err)
	}
	if err := s.audit(tx, by, auditChannelSettings, "channel", channel.ID, map[string]int64{"settings_version": version}); err != nil {
		return wire.ChannelSettings{}, err
	}
	changed := wire.ChannelSettingsChanged{ChannelID: channel.ID, SettingsVersion: version}
	if err := s.log.Emit(tx, event(by, eventlog.ChannelSettingsChanged, channel.Scope(), channel.ID, 0, changed)); err != nil {
		return wire.ChannelSettings{}, err
	}
	return wire.ChannelSettings{
		ChannelID: channel.ID, Prompt: in.Prompt, Agents: in.Agents, BackendPolicy: in.BackendPolicy, SettingsVersion: version,
	}, nil
}

// requireAgents refuses ids that name no agent the caller sees. Who is set already may stay: the settings name
// it to whoever manages the channel.
func requireAgents(tx storage.Tx, by authz.Caller, before, agents []wire.ChannelAgent) error {
	ids := make([]string, len(agents))
	for i, agent := range agents {
		ids[i] = agent.AgentID
	}
	known := make(map[string]bool, len(ids))
	err := tx.Query(`SELECT id FROM principals WHERE id = ANY($1) AND kind = 'agent'`, []any{ids}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		known[id] = true
		return err
	})
	if err != nil {
		return fmt.Errorf("look for agents: %w", err)
	}
	stays := make(map[string]bool, len(before))
	for _, agent := range before {
		stays[agent.AgentID] = true
	}
	for i, id := range ids {
		seen := stays[id]
		if known[id] && !seen {
			if seen, err = authz.SeesPrincipal(tx, by, id); err != nil {
				return err
			}
		}
		if !known[id] || !seen {
			return unknown(fmt.Sprintf("/agents/%d/agent_id", i), "agent")
		}
	}
	return nil
}
