package server_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wirews "github.com/cairnsync/cairn/wire/workspace"
)

// play is a team whose every deed is looked at by each of its devices.
type play struct {
	t       *testing.T
	node    *servertest.Server
	owner   *peer
	guest   *peer
	all     []*peer
	guestID string
	space   wirews.Space
	open    wirews.Channel // the guest writes here
	secret  wirews.Channel // only the owner sees it

	mu    sync.Mutex
	kinds map[string]int // guarded by mu; the types of events that came
}

func newPlay(t *testing.T, db *testkit.Database) *play {
	t.Helper()
	s := &play{t: t, kinds: map[string]int{}}
	s.node = servertest.Start(t, db, func(c *config.Config) {
		c.Limits.Enabled, c.File.Dir, c.Authz.ExpirySweepInterval = false, t.TempDir(), 50*time.Millisecond
	})
	owner := s.node.Person(t, "owner")
	guest := s.node.Person(t, "guest")
	s.guestID = guest.ID
	s.space = owner.Space(t, "space")
	s.open, s.secret = owner.Channel(t, s.space.ID, "open"), owner.Forum(t, s.space.ID, "secret")
	owner.Grant(t, guest.ID, wirews.TargetChannel, s.open.ID, wirews.LevelManage)
	s.owner, s.guest = newPeer(t, s.node, owner.ID, "laptop"), newPeer(t, s.node, guest.ID, "tablet")
	s.all = []*peer{s.owner, s.guest, newPeer(t, s.node, owner.ID, "phone")}
	for _, p := range s.all {
		p.watch = s.count
		p.run()
		require.NoError(t, p.Settle(s.ctx()))
		for _, channel := range []wirews.Channel{s.open, s.secret} {
			p.OpenChannel(channel.ID)
		}
		p.OpenThread(s.open.MainThreadID)
		require.NoError(t, p.Settle(s.ctx()))
	}
	return s
}

func (s *play) ctx() context.Context { return s.t.Context() }

func (s *play) count(event workspace.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[event.Type]++
}

func (s *play) came(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kinds[kind]
}

// same demands that every copy is what a fresh one would be.
func (s *play) same(after string) {
	s.t.Helper()
	for _, p := range s.all {
		ctx, cancel := context.WithTimeout(s.ctx(), patience)
		p.current(ctx)
		cancel()
		p.mu.Lock()
		require.Empty(s.t, p.faults, "%s after %s", p.name, after)
		p.mu.Unlock()
	}
}

func (s *play) must(err error) {
	s.t.Helper()
	require.NoError(s.t, err)
}

// say sends a message and opens nothing.
func (s *play) say(by *peer, thread, text string) wirews.Message {
	s.t.Helper()
	made, err := by.Client().SendMessage(s.ctx(), thread, wirews.NewMessage{ContentMD: text})
	s.must(err)
	return made
}

// post starts a thread that everybody opens.
func (s *play) post() wirews.Thread {
	s.t.Helper()
	started, err := s.owner.Client().StartThread(s.ctx(), s.open.ID, wirews.NewThread{Title: "a post", ContentMD: "to @guest and @owner"})
	s.must(err)
	for _, p := range s.all {
		p.OpenThread(started.Thread.ID)
	}
	return started.Thread
}

// Old snapshot and events make the fresh snapshot, for every type of event that people cause, in random histories.
func TestWorkspaceEveryEvent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newPlay(t, db)
		s.same("the beginning")
		const rounds = 2
		for round := range rounds {
			for i, at := range rand.Perm(len(deeds)) {
				d := deeds[at]
				before := make([]int, len(d.kinds))
				for k, kind := range d.kinds {
					before[k] = s.came(kind)
				}
				if rand.N(6) == 0 {
					s.all[rand.N(len(s.all))].proxy.Reset()
				}
				d.do(s)
				for k, kind := range d.kinds {
					require.Eventually(t, func() bool { return s.came(kind) > before[k] }, patience, 2*time.Millisecond, "%s does not come", kind)
				}
				if round == 0 || i%8 == 7 {
					s.same(strings.Join(d.kinds, ", "))
				}
			}
			s.same("a round")
		}
		t.Run("ES-9 every durable type that people cause was applied", func(t *testing.T) {
			for _, d := range deeds {
				for _, kind := range d.kinds {
					require.GreaterOrEqual(t, s.came(kind), rounds, kind)
				}
			}
			require.Equal(t, 35, kindsOf(deeds), "all but those of agents, runs and hosts")
		})
	})
}

func kindsOf(all []deed) int {
	kinds := map[string]bool{}
	for _, d := range all {
		for _, kind := range d.kinds {
			kinds[kind] = true
		}
	}
	return len(kinds)
}

// deed causes events of some types.
type deed struct {
	kinds []string
	do    func(s *play)
}

var deeds = []deed{
	{[]string{workspace.TypeMessageCreated}, func(s *play) { s.say(s.guest, s.open.MainThreadID, "@owner hello") }},
	{[]string{workspace.TypeMessageUpdated}, func(s *play) {
		made := s.say(s.owner, s.open.MainThreadID, "@guest hello")
		_, err := s.owner.Client().EditMessage(s.ctx(), made.ID, "nobody is meant", made.Version)
		s.must(err)
	}},
	{[]string{workspace.TypeMessageDeleted}, func(s *play) {
		made := s.say(s.guest, s.open.MainThreadID, "@owner a mistake")
		s.must(s.guest.Client().React(s.ctx(), made.ID, "👍"))
		s.must(s.owner.Client().DeleteMessage(s.ctx(), made.ID))
	}},
	{[]string{workspace.TypeReactionAdded, workspace.TypeReactionRemoved}, func(s *play) {
		made := s.say(s.owner, s.open.MainThreadID, "react")
		s.must(s.guest.Client().React(s.ctx(), made.ID, "🎉"))
		s.must(s.owner.Client().React(s.ctx(), made.ID, "🎉"))
		s.must(s.guest.Client().Unreact(s.ctx(), made.ID, "🎉"))
	}},
	{[]string{workspace.TypePinAdded, workspace.TypePinRemoved}, func(s *play) {
		one, two := s.say(s.owner, s.open.MainThreadID, "pin"), s.say(s.owner, s.open.MainThreadID, "pin and unpin")
		s.must(s.owner.Client().Pin(s.ctx(), s.open.MainThreadID, one.ID))
		s.must(s.owner.Client().Pin(s.ctx(), s.open.MainThreadID, two.ID))
		s.must(s.guest.Client().Unpin(s.ctx(), s.open.MainThreadID, two.ID))
	}},
	{[]string{workspace.TypeThreadCreated, workspace.TypeThreadUpdated}, func(s *play) {
		title, post := "another title", s.post()
		_, err := s.owner.Client().PatchThread(s.ctx(), post.ID, wirews.PatchThread{Title: &title}, 0)
		s.must(err)
	}},
	{[]string{workspace.TypeThreadClosed, workspace.TypeThreadReopened}, func(s *play) {
		post := s.post()
		_, err := s.guest.Client().CloseThread(s.ctx(), post.ID)
		s.must(err)
		_, err = s.owner.Client().ReopenThread(s.ctx(), post.ID)
		s.must(err)
	}},
	{[]string{workspace.TypeThreadMoved, workspace.TypeThreadMovedOut}, func(s *play) {
		stays, back := s.post(), s.post()
		for _, thread := range []string{stays.ID, back.ID} {
			_, err := s.owner.Client().MoveThread(s.ctx(), thread, s.secret.ID)
			s.must(err)
		}
		s.say(s.owner, back.ID, "in secret, @guest")
		_, err := s.owner.Client().MoveThread(s.ctx(), back.ID, s.open.ID)
		s.must(err)
	}},
	{[]string{workspace.TypeChannelCreated, workspace.TypeChannelUpdated, workspace.TypeChannelSettingsChanged}, func(s *play) {
		made, err := s.owner.Client().CreateChannel(s.ctx(), wirews.NewChannel{SpaceID: s.space.ID, Kind: wirews.ChannelForum, Name: "new", Topic: "x"})
		s.must(err)
		yes := true
		_, err = s.owner.Client().PatchChannel(s.ctx(), made.ID, wirews.PatchChannel{ReadOnly: &yes, Clear: []string{"topic"}}, 0)
		s.must(err)
		settings, err := s.owner.Client().ChannelSettings(s.ctx(), made.ID)
		s.must(err)
		_, err = s.owner.Client().PutChannelSettings(s.ctx(), made.ID, wirews.PutSettings{Prompt: "be brief"}, settings.SettingsVersion)
		s.must(err)
	}},
	{[]string{workspace.TypeChannelArchived, workspace.TypeChannelUnarchived}, func(s *play) {
		_, err := s.owner.Client().ArchiveChannel(s.ctx(), s.open.ID)
		s.must(err)
		_, err = s.owner.Client().UnarchiveChannel(s.ctx(), s.open.ID)
		s.must(err)
	}},
	{[]string{workspace.TypeSpaceCreated, workspace.TypeSpaceUpdated}, func(s *play) {
		made, err := s.owner.Client().CreateSpace(s.ctx(), "another")
		s.must(err)
		name := "renamed"
		_, err = s.owner.Client().PatchSpace(s.ctx(), made.ID, wirews.PatchSpace{Name: &name}, 0)
		s.must(err)
	}},
	{[]string{workspace.TypeSpaceArchived, workspace.TypeSpaceUnarchived}, func(s *play) {
		_, err := s.owner.Client().ArchiveSpace(s.ctx(), s.space.ID)
		s.must(err)
		_, err = s.owner.Client().UnarchiveSpace(s.ctx(), s.space.ID)
		s.must(err)
	}},
	{[]string{workspace.TypePrincipalUpdated}, func(s *play) {
		name := "Guest " + workspace.NewID()
		_, err := s.owner.Client().PatchPrincipal(s.ctx(), wirews.KindUser, s.guestID, wirews.PatchPrincipal{DisplayName: &name}, 0)
		s.must(err)
	}},
	{[]string{workspace.TypeDeviceUpdated}, func(s *play) { s.node.SignIn(s.t, s.guestID, "another") }},
	{[]string{workspace.TypeFileUpdated}, func(s *play) {
		for _, gone := range []bool{false, true} {
			file, err := s.guest.Client().Upload(s.ctx(), "a.txt", "text/plain", strings.NewReader("abc"), 3)
			s.must(err)
			_, err = s.guest.Client().SendMessage(s.ctx(), s.open.MainThreadID, wirews.NewMessage{ContentMD: "see", FileIDs: []string{file.ID}})
			s.must(err)
			if gone {
				s.must(s.guest.Client().DeleteFile(s.ctx(), file.ID))
			}
		}
	}},
	{[]string{workspace.TypeImportProgress, workspace.TypeThreadUpdated}, func(s *play) { s.imports() }},
	{[]string{workspace.TypeAccessChanged, workspace.TypeAccessExpiring}, func(s *play) { s.lends() }},
	{[]string{workspace.TypeReadStateUpdated}, func(s *play) {
		made := s.say(s.guest, s.open.MainThreadID, "read this")
		read, err := s.owner.Client().MarkRead(s.ctx(), s.open.MainThreadID, made.ThreadSeq)
		s.must(err)
		if rand.N(2) == 0 {
			_, err = s.owner.Client().ResetRead(s.ctx(), s.open.MainThreadID, max(made.ThreadSeq-3, 0), read.Version)
			s.must(err)
		}
	}},
	{[]string{workspace.TypeDraftUpdated, workspace.TypeDraftDeleted}, func(s *play) {
		_, err := s.owner.Client().PutDraft(s.ctx(), s.open.MainThreadID, wirews.PutDraft{ContentMD: "half a"})
		s.must(err)
		s.must(s.owner.Client().DeleteDraft(s.ctx(), s.open.MainThreadID))
		_, err = s.guest.Client().PutDraft(s.ctx(), s.open.MainThreadID, wirews.PutDraft{ContentMD: "half a word"})
		s.must(err)
	}},
	{[]string{workspace.TypeSettingsUpdated}, func(s *play) {
		_, err := s.owner.Client().PutSetting(s.ctx(), "theme", json.RawMessage(`{"dark":true}`))
		s.must(err)
		if rand.N(2) == 0 {
			s.must(s.owner.Client().DeleteSetting(s.ctx(), "theme"))
		}
	}},
	{[]string{workspace.TypeSidebarUpdated}, func(s *play) {
		_, err := s.guest.Client().PutSidebar(s.ctx(), s.space.ID, json.RawMessage(`{"order":["x"]}`))
		s.must(err)
	}},
	{[]string{workspace.TypeNotificationUpdated}, func(s *play) {
		level := []string{"all", "mentions", "none"}[rand.N(3)]
		_, err := s.owner.Client().PutNotificationPref(s.ctx(), "channel", s.open.ID, wirews.PutNotificationPref{Level: level})
		s.must(err)
	}},
	{[]string{workspace.TypeQuietHoursUpdated}, func(s *play) {
		hours := wirews.PutQuietHours{Timezone: "Europe/Berlin", Days: []string{"mon"}, From: "22:00", To: []string{"06:00", "07:00"}[rand.N(2)]}
		_, err := s.owner.Client().PutQuietHours(s.ctx(), hours)
		s.must(err)
	}},
}

// imports brings two batches of one thread in.
func (s *play) imports() {
	s.t.Helper()
	of, err := s.owner.Client().StartImport(s.ctx(), wirews.NewImport{SpaceID: s.space.ID, Source: workspace.NewID()})
	s.must(err)
	batch := wirews.ImportBatch{
		Channel: wirews.ImportChannel{SourceID: "c", Name: "imported"}, Thread: wirews.ImportThread{SourceID: "t", Main: true},
	}
	for _, id := range []string{"one", "two"} {
		batch.Messages = append(batch.Messages, wirews.ImportMessage{
			SourceID: id, AuthorSourceID: "somebody", AuthorName: "Somebody", ContentMD: id, CreatedAt: time.Now().Add(-time.Hour),
		})
		receipt, err := s.owner.Client().ImportBatch(s.ctx(), of.ID, batch)
		s.must(err)
		s.owner.OpenThread(receipt.ThreadID)
	}
	_, err = s.owner.Client().FinishImport(s.ctx(), of.ID)
	s.must(err)
}

// lends gives the guest the secret channel for a short time, and the space until it is taken away.
func (s *play) lends() {
	s.t.Helper()
	subject := wirews.Subject{Kind: wirews.SubjectPrincipal, ID: s.guestID}
	ends := time.Now().Add(time.Second)
	_, err := s.owner.Client().CreateGrant(s.ctx(), wirews.NewGrant{
		Subject: subject, Target: wirews.Target{Kind: wirews.TargetChannel, ID: s.secret.ID}, Level: wirews.LevelRead, ExpiresAt: &ends,
	})
	s.must(err)
	grant, err := s.owner.Client().CreateGrant(s.ctx(), wirews.NewGrant{
		Subject: subject, Target: wirews.Target{Kind: wirews.TargetSpace, ID: s.space.ID}, Level: wirews.LevelRead,
	})
	s.must(err)
	s.post()
	_, err = s.owner.Client().RevokeGrant(s.ctx(), grant.ID)
	s.must(err)
	require.Eventually(s.t, func() bool {
		_, err := s.guest.Client().Channel(s.ctx(), s.secret.ID)
		refused := workspace.AsProblem(err)
		return refused != nil && refused.Status == http.StatusNotFound
	}, patience, 20*time.Millisecond, "the grant ends")
}
