package workspace

import (
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func accessCases() []testCase {
	return []testCase{
		{rule: "ES-8.1", name: "what counts are the permissions at the delivery, not at the event", run: casePastIsHidden},
		{rule: "ES-8.1", name: "structure changes apply in the order of the log", run: caseStructure},
		{rule: "ES-8.2", name: "access.changed holds the difference, and only for whom there is one", run: caseDifference},
		{rule: "ES-8.2", name: "groups touch their members", run: caseGroupDifference},
		{rule: "ES-8.2", name: "an expiry takes effect at once and is written by the sweep", profile: expiring, slow: true, run: caseExpiry},
		{rule: "ES-8.2", name: "access.expiring comes once", profile: expiring, run: caseExpiring},
		{rule: "ES-8.2", name: "archiving is a change for whom it takes a level", run: caseArchiveAccess},
		{rule: "ES-8.3", name: "after access.changed nothing of the removed target comes", run: caseRemoval},
		{rule: "ES-8.3", name: "the focus on a removed target ends", run: caseFocusEnds},
		{rule: "ES-8.3", name: "what was removed while one was away is not caught up", run: caseRemovedWhileAway},
		{rule: "ES-8.4", name: "an extension is told, older events do not come", run: caseExtension},
		{rule: "ES-8.5", name: "a revoked device closes its connections, not the others", run: caseDeviceRevoked},
		{rule: "ES-8.5", name: "a disabled person loses every connection and token at once", run: caseDisabled},
	}
}

func casePastIsHidden(t *trial) {
	r := t.room()
	ben := t.member(r.owner)
	from := ben.head()
	r.say(r.owner, "before")
	require.Empty(t, only(ben.events(from), "message.created"))
	grant := r.grant(ben, wire.LevelRead)
	require.Len(t, only(ben.events(from), "message.created"), 1, "who may read now gets it")
	r.revoke(grant)
	require.Empty(t, only(ben.events(from), "message.created"), "who may not any more does not")
}

func caseStructure(t *trial) {
	r := t.room()
	private := r.newChannel(wire.ChannelText)
	s := r.anna.connect()
	thread := r.start(r.owner, r.channel.ID, "moving").Thread
	r.owner.post("/threads/"+thread.ID+"/move", wire.MoveThread{ChannelID: private.ID}).want(http.StatusOK)
	r.sayIn(r.owner, thread.ID, "where anna does not see it")
	got := types(s.settled())
	require.Equal(t, []string{"thread.created", "message.created", "thread.moved_out"}, got)
	r.anna.get("/threads/" + thread.ID).refused(code.NotFound)
	require.NotContains(t, types(r.anna.events(s.ready.HeadSeq)), "thread.created", "its past went with it")
	r.owner.patch("/channels/"+r.channel.ID, object{"read_only": true}, ifMatch(r.channel.Version)).want(http.StatusOK)
	s.await("channel.updated")
	s.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	s.refused(wire.OpTypingStart, code.Forbidden)
}

func (s *socket) accessChanged() wire.AccessChanged {
	event := s.await("access.changed")
	require.Equal(s.t, wire.AudienceSelf, event.Audience)
	changed := payload[wire.AccessChanged](s.t, event)
	require.Equal(s.t, event.PermissionVersion, changed.PermissionVersion)
	return changed
}

func caseDifference(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelRead)
	anna, bens := r.anna.connect(), ben.connect()
	grant := r.grant(ben, wire.LevelTrigger)
	changed := bens.accessChanged()
	require.Equal(t, []wire.Access{{Kind: wire.TargetChannel, ID: r.channel.ID, Level: wire.LevelTrigger, PreviousLevel: wire.LevelRead}}, changed.Changed)
	require.Empty(t, changed.Added)
	require.Empty(t, changed.Removed)
	r.revoke(r.grant(ben, wire.LevelWrite)) // makes no difference beside trigger
	r.revoke(grant)
	back := bens.accessChanged()
	require.Equal(t, []wire.Access{{Kind: wire.TargetChannel, ID: r.channel.ID, Level: wire.LevelRead, PreviousLevel: wire.LevelTrigger}}, back.Changed)
	require.Greater(t, back.PermissionVersion, changed.PermissionVersion+2, "every change counts")
	require.NotContains(t, types(anna.settled()), "access.changed")
}

func caseGroupDifference(t *trial) {
	r := t.room()
	ben := t.member(r.owner)
	group := read[wire.Group](r.owner.post("/groups", wire.NewGroup{Name: "group " + newID()}), http.StatusCreated)
	r.owner.put("/groups/"+group.ID+"/members/"+ben.id, wire.PutMember{}).want(http.StatusOK)
	s := ben.connect()
	grant := r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectGroup, ID: group.ID}, Target: wire.Target{Kind: wire.TargetSpace, ID: r.space.ID}, Level: wire.LevelRead,
	})
	added := s.accessChanged().Added
	require.Contains(t, added, wire.Access{Kind: wire.TargetSpace, ID: r.space.ID, Level: wire.LevelRead})
	require.Contains(t, added, wire.Access{Kind: wire.TargetChannel, ID: r.channel.ID, Level: wire.LevelRead})
	r.owner.delete("/groups/" + group.ID + "/members/" + ben.id).want(http.StatusNoContent)
	require.Len(t, s.accessChanged().Removed, len(added))
	ben.get("/channels/" + r.channel.ID).refused(code.NotFound)
	r.revoke(grant)
}

func caseExpiry(t *trial) {
	r := t.room()
	ben := t.member(r.owner)
	s := ben.connect()
	ends := time.Now().Add(2 * time.Second)
	r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: ben.id}, Target: wire.Target{Kind: wire.TargetChannel, ID: r.channel.ID},
		Level: wire.LevelRead, ExpiresAt: &ends,
	})
	require.NotEmpty(t, s.accessChanged().Added)
	event := s.await("access.changed")
	require.False(t, event.OccurredAt.Before(ends.Add(-time.Second)), "not before it ends")
	require.Equal(t, &wire.Actor{Kind: wire.KindSystem}, event.Actor, "a system action")
	require.NotEmpty(t, payload[wire.AccessChanged](t, event).Removed)
	ben.get("/channels/" + r.channel.ID).refused(code.NotFound)
}

func caseExpiring(t *trial) {
	r := t.room()
	ben := t.member(r.owner)
	s := ben.connect()
	ends := time.Now().Add(time.Hour)
	grant := r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: ben.id}, Target: wire.Target{Kind: wire.TargetChannel, ID: r.channel.ID},
		Level: wire.LevelRead, ExpiresAt: &ends,
	})
	told := payload[wire.AccessExpiring](t, s.await("access.expiring"))
	require.WithinDuration(t, ends, told.ExpiresAt, time.Second)
	require.Len(t, told.Targets, 1)
	require.Equal(t, r.channel.ID, told.Targets[0].ID)
	r.revoke(grant)
	s.await("access.changed")
	require.NotContains(t, types(s.settled()), "access.expiring")
}

func caseArchiveAccess(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelRead)
	annas, bens := r.anna.connect(), ben.connect()
	r.owner.post("/channels/"+r.channel.ID+"/archive", object{}, ifMatch(r.channel.Version)).want(http.StatusOK)
	got := annas.settled()
	require.ElementsMatch(t, []string{"channel.archived", "access.changed"}, types(got))
	changed := payload[wire.AccessChanged](t, only(got, "access.changed")[0])
	require.Equal(t, []wire.Access{{Kind: wire.TargetChannel, ID: r.channel.ID, Level: wire.LevelRead, PreviousLevel: wire.LevelWrite}}, changed.Changed)
	require.Equal(t, []string{"channel.archived"}, types(bens.settled()), "who only reads loses nothing")
	r.anna.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"}).refused(code.Forbidden)
	r.owner.post("/channels/"+r.channel.ID+"/unarchive", object{}).want(http.StatusOK)
	require.ElementsMatch(t, []string{"channel.unarchived", "access.changed"}, types(annas.settled()))
	r.say(r.anna, "again")
}

func caseRemoval(t *trial) {
	r := t.room()
	s := r.anna.connect()
	r.say(r.owner, "before")
	s.await("message.created")
	r.revoke(r.annas())
	removed := s.accessChanged().Removed
	require.Contains(t, removed, wire.Access{Kind: wire.TargetChannel, ID: r.channel.ID})
	require.Contains(t, removed, wire.Access{Kind: wire.TargetSpace, ID: r.space.ID}, "the space was seen by its channel")
	r.say(r.owner, "after")
	r.start(r.owner, r.channel.ID, "after")
	require.Empty(t, s.settled())
	r.anna.get("/threads/" + r.thread).refused(code.NotFound)
	r.anna.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"}).refused(code.NotFound)
}

func caseFocusEnds(t *trial) {
	r := t.room()
	ben := r.joined(wire.LevelWrite)
	s, typist := r.anna.connect(), ben.connect()
	s.focus(r.thread)
	r.revoke(r.annas())
	s.accessChanged()
	r.grant(r.anna, wire.LevelRead)
	s.accessChanged()
	typist.send(wire.OpTypingStart, wire.Typing{ThreadID: r.thread})
	typist.acknowledged()
	require.NotContains(t, types(s.settled()), "typing.started", "it does not come back by itself")
}

func caseRemovedWhileAway(t *trial) {
	r := t.room()
	s := r.anna.connect()
	cursor := s.settledSeq()
	s.cut()
	r.say(r.owner, "while away")
	r.revoke(r.annas())
	again, _ := r.anna.resume(s.ready.GatewaySessionID, cursor)
	events, _ := again.completed()
	require.Equal(t, []string{"access.changed"}, types(events))
}

func caseExtension(t *trial) {
	r := t.room()
	other := r.newChannel(wire.ChannelText)
	r.sayIn(r.owner, other.MainThreadID, "before")
	s := r.anna.connect()
	r.grantOn(r.anna, other.ID, wire.LevelRead)
	require.Contains(t, s.accessChanged().Added, wire.Access{Kind: wire.TargetChannel, ID: other.ID, Level: wire.LevelRead})
	sent := r.sayIn(r.owner, other.MainThreadID, "after")
	events := s.settled()
	require.Equal(t, []string{"message.created"}, types(events), "nothing from before")
	require.Equal(t, sent.ID, events[0].Resource.ID)
}

func caseDeviceRevoked(t *trial) {
	p := t.member(t.owner())
	other := p.another()
	s, stays := p.connect(), other.connect()
	other.delete("/devices/" + p.device).want(http.StatusNoContent)
	s.closed(code.CloseRevoked)
	stays.acknowledged()
	p.shutOut()
	p.refresh().refused(code.InvalidCredentials)
}

func caseDisabled(t *trial) {
	owner := t.owner()
	p := t.member(owner)
	other := p.another()
	one, two := p.connect(), other.connect()
	owner.post("/users/"+p.id+"/disable", object{}).want(http.StatusOK)
	one.closed(code.CloseRevoked)
	two.closed(code.CloseRevoked)
	p.shutOut()
	s := p.dial()
	s.send(wire.OpIdentify, s.identity())
	s.closed(code.CloseRevoked)
}
