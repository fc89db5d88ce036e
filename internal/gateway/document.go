package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// entrance reads what ready says, in one transaction.
func (g *Gateway) entrance(tx storage.Tx, s *session) (entrance, error) {
	g.learnClock(tx)
	state, err := eventlog.StateOf(tx)
	if err != nil {
		return entrance{}, err
	}
	permissions, err := permissionsOf(tx, s.caller.Principal)
	if err != nil {
		return entrance{}, err
	}
	document, err := g.document(tx, state, permissions)
	if err != nil {
		return entrance{}, err
	}
	return entrance{state: state, permissions: permissions, ready: &wire.Ready{
		GatewaySessionID: s.id, Principal: permissions.Principal, DeviceID: s.caller.Device, PermissionVersion: permissions.Version,
		HeadSeq: state.Head, SyncEpoch: state.SyncEpoch, Snapshot: document,
	}}, nil
}

// Snapshot answers what a client starts from, all of it as of one number of the log (GET sync/snapshot).
func (g *Gateway) Snapshot(ctx context.Context, by authz.Caller) (wire.Snapshot, error) {
	return storage.Read(ctx, g.DB, func(tx storage.Tx) (wire.Snapshot, error) {
		state, err := eventlog.StateOf(tx)
		if err != nil {
			return wire.Snapshot{}, err
		}
		permissions, err := authz.Check(tx, by, action.SelfRead, authz.Resource{})
		if err != nil {
			return wire.Snapshot{}, err
		}
		document, err := g.document(tx, state, permissions)
		if err != nil {
			return wire.Snapshot{}, err
		}
		return *document, nil
	})
}

// document builds the snapshot in the transaction that state and permissions were read in.
func (g *Gateway) document(tx storage.Tx, state eventlog.State, permissions *authz.Snapshot) (*wire.Snapshot, error) {
	document := &wire.Snapshot{
		HeadSeq: state.Head, SyncEpoch: state.SyncEpoch, PermissionVersion: permissions.Version, Principal: permissions.Principal,
		Access: []wire.Access{}, Spaces: []wire.Space{}, Channels: []wire.Channel{}, Sidebar: []wire.Sidebar{}, ReadStates: []wire.ReadState{},
		Runs: []json.RawMessage{}, Agents: []wire.Principal{}, SettingsVersions: map[string]int64{}, DraftVersions: map[string]int64{},
		FeatureFlags: map[string]bool{},
	}
	access, err := authz.Visible(tx, permissions)
	if err != nil {
		return nil, err
	}
	document.Access = append(document.Access, access...)
	if g.Document == nil || !permissions.Active() {
		return document, nil
	}
	if err := g.Document(tx, permissions, document); err != nil {
		return nil, fmt.Errorf("build snapshot: %w", err)
	}
	return document, nil
}
