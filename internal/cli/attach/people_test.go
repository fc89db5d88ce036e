package attach

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const tablet = "00000000-0000-4000-8000-000000000009"

func withTablet() wire.SessionDetail {
	detail := detailFor(wire.RoleOwner)
	detail.Members[0].Devices = append(detail.Members[0].Devices, wire.MemberDevice{DeviceID: tablet, Name: "tablet"})
	return detail
}

func TestDispatchLooksForANewDevice(t *testing.T) {
	t.Parallel()
	t.Run("which is there", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		effects := s.enter("/dispatch tablet go on")
		require.Len(t, all[detailEffect](effects), 1)
		require.Empty(t, all[dispatchEffect](effects))
		s.shows("looking for that device")
		require.Empty(t, all[detailEffect](s.press("enter")), "once is enough")
		dispatch := only[dispatchEffect](t, s.m.handle(detailMsg{detail: withTablet()})).dispatch
		require.Equal(t, tablet, dispatch.DeviceID)
		require.Equal(t, "go on", *dispatch.Text)
		require.True(t, s.m.editor.empty())
	})
	t.Run("while an older list is on its way", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		s.enter("/who")
		s.press("esc")
		s.enter("/dispatch tablet go on")
		again := s.m.handle(detailMsg{detail: s.m.setup.detail})
		require.Len(t, all[detailEffect](again), 1)
		s.hides("no device called")
		require.Len(t, all[dispatchEffect](s.m.handle(detailMsg{detail: withTablet()})), 1)
	})
	t.Run("which is not there", func(t *testing.T) {
		t.Parallel()
		for _, answer := range []detailMsg{{detail: detailFor(wire.RoleOwner)}, {err: errors.New("no route")}} {
			s := open(t)
			s.enter("/dispatch tablet go on")
			require.Empty(t, all[detailEffect](s.m.handle(answer)))
			s.shows("the owner has no device called tablet", "/dispatch tablet go on")
		}
	})
	t.Run("and was given up meanwhile", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		s.enter("/dispatch tablet go on")
		s.press("ctrl+c", "h")
		require.Empty(t, all[dispatchEffect](s.m.handle(detailMsg{detail: withTablet()})))
		require.Equal(t, "h", s.m.editor.text)
		require.Empty(t, s.m.sought)
	})
}

func TestWhoIsAskedForAnew(t *testing.T) {
	t.Parallel()
	s := open(t)
	require.Len(t, all[detailEffect](s.enter("/who")), 1)
	s.hides("tablet")
	s.m.handle(detailMsg{detail: withTablet()})
	s.press("end")
	s.shows("tablet", tablet)
	s.press("esc")
	require.Len(t, all[detailEffect](s.enter("/who")), 1)
}

func TestADeviceThatCameLater(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.New(t, testkit.SQLite))
	w := r.attach(r.client(r.owner, laptop, "laptop", ""), nil)
	w.shows("● live")
	_, err := r.client(r.owner, tablet, "tablet", "").ListSessions(t.Context(), client.ListOptions{})
	require.NoError(t, err)
	w.types("/dispatch tablet go on\r")
	w.shows("dispatched to tablet")
	w.types("/quit\r")
	require.NoError(t, w.leaves())
}

func TestANoticeEndsWithTheNextCommand(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.enter("/s hello")
	s.shows("/s could be /send or /steer")
	s.press("ctrl+c")
	s.enter("/pause")
	s.hides("could be", "leaves")
	require.Empty(t, s.m.notice)
}
