package authz_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestGrants(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newStage(t, db.DB)
		owner, ada := s.owner(), s.person()
		space := s.space()
		channel := s.channel(space)
		grant, err := s.authz.CreateGrant(t.Context(), owner, wire.NewGrant{Subject: principal(ada.Principal), Target: onChannel(channel), Level: wire.LevelWrite})
		require.NoError(t, err)
		require.Equal(t, wire.LevelWrite, s.load(ada.Principal).Level(authz.Place{SpaceID: space, ChannelID: channel}, s.env.Now()))
		require.Len(t, s.visible(ada.Principal), 2)
		require.Len(t, s.events(0), 1)
		_, err = s.authz.RevokeGrant(t.Context(), owner, grant.ID)
		require.NoError(t, err)
		require.Empty(t, s.visible(ada.Principal))
		require.Len(t, s.events(0), 2)
		group, err := s.authz.CreateGroup(t.Context(), owner, wire.NewGroup{Name: "crew"})
		require.NoError(t, err)
		_, err = s.authz.PutMember(t.Context(), owner, group.ID, ada.Principal, wire.PutMember{})
		require.NoError(t, err)
		require.NoError(t, s.authz.Sweep(t.Context(), 0))
	})
}
