package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// mate is a person of a team on one device, with the SDK and a store of its own.
type mate struct {
	*workspace.Account

	t    *testing.T
	node *servertest.Server
	user string
	id   string // of the device
	dir  string

	mu      sync.Mutex // guards reports
	reports []string
	stop    func()
}

// join signs a user in on a new device and begins to run.
func join(t *testing.T, node *servertest.Server, user, name string) *mate {
	t.Helper()
	m := &mate{t: t, node: node, user: user, id: env.Real().RandomID(), dir: filepath.Join(t.TempDir(), name)}
	m.open()
	made, err := node.Server.SignIn().MakeLoginCode(t.Context(), user)
	require.NoError(t, err)
	_, err = m.Client().SignIn(t.Context(), workspace.LoginCode(made.Code))
	require.NoError(t, err)
	m.run()
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *mate) open() {
	store, keys, err := localstore.OpenIn(m.dir)
	require.NoError(m.t, err)
	opened, err := workspace.OpenAccount(m.t.Context(), workspace.AccountConfig{
		Client: workspace.Config{BaseURL: m.node.URL, Device: workspace.Device{ID: m.id, Name: "test", Platform: "test"}, Keys: keys}, Store: store,
		Gateway: workspace.GatewayOptions{Report: m.report},
	})
	require.NoError(m.t, err)
	m.Account = opened
}

func (m *mate) report(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if violation, is := errors.AsType[*workspace.Violation](err); is {
		m.reports = append(m.reports, violation.Error())
	}
	m.t.Log(filepath.Base(m.dir), err)
}

func (m *mate) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(m.t.Context()))
	ended := make(chan error, 1)
	account := m.Account
	go func() { ended <- account.Run(ctx) }()
	m.stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, workspace.ErrRevoked) {
			m.t.Errorf("run account: %v", err)
		}
		_ = account.Close()
		m.stop = func() {}
	}
}

// restart ends the process, as far as its memory goes.
func (m *mate) restart() {
	m.stop()
	m.open()
	m.run()
}

// same waits for the copy and compares it with a fresh one.
func (m *mate) same() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	require.NoError(m.t, m.Settle(ctx))
	require.NoError(m.t, m.Outbox().Idle(ctx))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// Of events that are not visible a live connection hears with its next heartbeat: the head is no place to wait for.
		require.NoError(m.t, m.Settle(ctx))
		fresh, err := m.Client().Fresh(ctx, m.State().Export())
		differences := workspace.Compare(m.State().Export(), fresh)
		if err == nil && len(differences) == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(m.t, err)
			require.Empty(m.t, differences)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(m.t, m.reports)
}

// deed does something at random.
func (m *mate) deed(threads []string) {
	ctx := m.t.Context()
	thread := threads[rand.N(len(threads))]
	m.OpenThread(thread)
	messages := m.State().Messages(thread)
	pick := func() (wirews.Message, bool) {
		if len(messages) == 0 {
			return wirews.Message{}, false
		}
		message := messages[rand.N(len(messages))]
		return message, message.DeletedAt == nil
	}
	message, some := pick()
	mine := some && message.Author.ID == m.State().Me().ID
	var err error
	switch what := rand.N(12); {
	case what == 0 && mine:
		_, err = m.Outbox().Edit(ctx, message, fmt.Sprintf("edited %d", rand.N(1000)))
	case what == 1 && mine:
		_, err = m.Outbox().Delete(ctx, message)
	case what <= 3 && some:
		_, err = m.Outbox().React(ctx, message, []string{"👍", "🎉", "a/b"}[rand.N(2)], rand.N(3) > 0)
	case what == 4 && some:
		_, err = m.Outbox().Pin(ctx, message, rand.N(2) == 0)
	case what == 5:
		_, err = m.Outbox().CloseThread(ctx, thread, rand.N(2) == 0)
	case what == 6:
		_, err = m.Outbox().MarkRead(ctx, thread, int64(len(messages)))
	case what == 7:
		_, err = m.Outbox().PutDraft(ctx, thread, wirews.PutDraft{ContentMD: []string{"", "a draft", "another"}[rand.N(3)]})
	default:
		_, err = m.Outbox().Send(ctx, thread, workspace.Text{ContentMD: fmt.Sprintf("@mate @owner words %d", rand.N(1000)), ClearDraft: rand.N(4) == 0})
	}
	require.NoError(m.t, err)
}

func TestWorkspaceClient(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		node := servertest.Start(t, db, func(c *config.Config) { c.Limits.Enabled = false })
		ctx := t.Context()
		first, err := node.Identity().AddUser(ctx, "owner", nil)
		require.NoError(t, err)
		second, err := node.Identity().AddUser(ctx, "mate", nil)
		require.NoError(t, err)
		owner := join(t, node, first.UserID, "owner")
		require.NoError(t, owner.Settle(ctx))
		space, err := owner.Client().CreateSpace(ctx, "space")
		require.NoError(t, err)
		channel, err := owner.Client().CreateChannel(ctx, wirews.NewChannel{SpaceID: space.ID, Kind: wirews.ChannelText, Name: "open"})
		require.NoError(t, err)
		private, err := owner.Client().CreateChannel(ctx, wirews.NewChannel{SpaceID: space.ID, Kind: wirews.ChannelForum, Name: "private"})
		require.NoError(t, err)
		grant := func(kind wirews.TargetKind, id string, level wirews.Level) wirews.Grant {
			made, err := owner.Client().CreateGrant(ctx, wirews.NewGrant{
				Subject: wirews.Subject{Kind: wirews.SubjectPrincipal, ID: second.UserID}, Target: wirews.Target{Kind: kind, ID: id}, Level: level,
			})
			require.NoError(t, err)
			return made
		}
		held := grant(wirews.TargetChannel, channel.ID, wirews.LevelManage)
		started, err := owner.Client().StartThread(ctx, channel.ID, wirews.NewThread{Title: "beside", ContentMD: "hello @mate"})
		require.NoError(t, err)
		threads := []string{channel.MainThreadID, started.Thread.ID}
		laptop, phone := join(t, node, second.UserID, "laptop"), join(t, node, second.UserID, "phone")
		all := []*mate{owner, laptop, phone}
		for _, m := range all {
			require.NoError(t, m.Settle(ctx))
			m.OpenChannel(channel.ID)
			for _, thread := range threads {
				m.OpenThread(thread)
			}
			m.same()
		}
		t.Run("ES-9 copies equal fresh snapshots, over restarts", func(t *testing.T) {
			for round := range 4 {
				for range 40 {
					all[rand.N(len(all))].deed(threads)
				}
				all[round%len(all)].restart()
			}
			for _, m := range all {
				m.same()
			}
		})
		t.Run("personal data reaches the other device", func(t *testing.T) { personalData(t, laptop, phone, space.ID, channel) })
		t.Run("files", func(t *testing.T) { files(t, owner, threads[0]) })
		t.Run("ES-8.3 a removal deletes what was there, an addition brings it back", func(t *testing.T) {
			_, err := owner.Client().RevokeGrant(ctx, held.ID)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return len(laptop.State().Channels("")) == 0 }, time.Minute, 10*time.Millisecond)
			require.Empty(t, laptop.State().Messages(threads[0]))
			laptop.same()
			held = grant(wirews.TargetSpace, space.ID, wirews.LevelWrite)
			require.Eventually(t, func() bool { return len(laptop.State().Channels("")) == 2 }, time.Minute, 10*time.Millisecond)
			for _, thread := range threads {
				laptop.OpenThread(thread)
				phone.OpenThread(thread)
			}
			for range 30 {
				all[rand.N(len(all))].deed(threads)
			}
			_, err = owner.Client().MoveThread(ctx, started.Thread.ID, private.ID)
			require.NoError(t, err)
			_, err = owner.Client().RevokeGrant(ctx, held.ID)
			require.NoError(t, err)
			held = grant(wirews.TargetChannel, channel.ID, wirews.LevelWrite)
			yes := true
			_, err = owner.Client().PatchChannel(ctx, channel.ID, wirews.PatchChannel{ReadOnly: &yes}, 0)
			require.NoError(t, err)
			for _, m := range all {
				m.same()
			}
		})
		t.Run("ES-8.5 a revoked device keeps nothing", func(t *testing.T) {
			require.NoError(t, laptop.Client().RevokeDevice(ctx, phone.id))
			require.Eventually(t, func() bool { return len(phone.State().Spaces()) == 0 && phone.Position() == workspace.Position{} },
				time.Minute, 10*time.Millisecond)
			phone.stop()
			laptop.same()
		})
	})
}

func personalData(t *testing.T, laptop, phone *mate, space string, channel wirews.Channel) {
	t.Helper()
	ctx := t.Context()
	_, err := laptop.Client().PutSetting(ctx, "theme", json.RawMessage(`{"dark":true}`))
	require.NoError(t, err)
	_, err = laptop.Client().PutSidebar(ctx, space, json.RawMessage(`{"order":[1]}`))
	require.NoError(t, err)
	_, err = laptop.Client().PutNotificationPref(ctx, "channel", channel.ID, wirews.PutNotificationPref{Level: "mentions"})
	require.NoError(t, err)
	_, err = laptop.Client().PutQuietHours(ctx, wirews.PutQuietHours{Timezone: "Europe/Berlin", Days: []string{"mon"}, From: "22:00", To: "07:00"})
	require.NoError(t, err)
	laptop.same()
	phone.same()
	_, ok := phone.State().Setting("theme")
	require.True(t, ok)
	require.NoError(t, phone.Client().DeleteSetting(ctx, "theme"))
	laptop.same()
	phone.same()
	_, ok = laptop.State().Setting("theme")
	require.False(t, ok)
}

func files(t *testing.T, owner *mate, thread string) {
	t.Helper()
	ctx := t.Context()
	content := strings.Repeat("0123456789", 50_000)
	file, err := owner.Client().Upload(ctx, "numbers.txt", "text/plain", strings.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	require.Equal(t, "complete", file.UploadState)
	_, err = owner.Outbox().Send(ctx, thread, workspace.Text{ContentMD: "see", FileIDs: []string{file.ID}})
	require.NoError(t, err)
	owner.same()
	body, err := owner.Client().Download(ctx, file.ID)
	require.NoError(t, err)
	defer body.Close()
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.True(t, bytes.Equal([]byte(content), got))
}
