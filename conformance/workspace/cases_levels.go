package workspace

import (
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func levelCases() []testCase {
	return []testCase{
		{rule: "WS-AZ-1", name: "what each level allows", run: caseLevels},
		{rule: "WS-AZ-2", name: "the highest grant counts, on channel, space and instance", run: caseHighest},
		{rule: "WS-AZ-2", name: "read_only caps below manage, archived caps everybody", run: caseCaps},
		{rule: "WS-AZ-3", name: "the last owner stays", profile: rotating, run: caseLastOwner},
		{rule: "WS-AZ-4", name: "rate classes count, with their wait", profile: limited, run: caseRates},
		{rule: "WS-AZ-5", name: "what one may not see does not exist", run: caseInvisible},
		{rule: "WS-AZ-5", name: "the order of refusals", run: caseRefusals},
		{rule: "WS-AZ-6", name: "a change is one version, one event each, one audit row", run: caseOneChange},
		{rule: "WS-AZ-7", name: "what needs owner and manage on the instance", run: caseInstanceLevels},
		{rule: "WS-AZ-7", name: "people see those with whom they share a channel", run: casePeopleSeen},
	}
}

func caseLevels(t *trial) {
	r := t.room()
	sent := r.say(r.owner, "x")
	deeds := []struct {
		least wire.Level
		do    func(p *person) *answer
	}{
		{wire.LevelRead, func(p *person) *answer { return p.get("/threads/" + r.thread + "/messages") }},
		{wire.LevelWrite, func(p *person) *answer {
			return p.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"})
		}},
		{wire.LevelWrite, func(p *person) *answer { return p.put("/messages/"+sent.ID+"/reactions/👍", nil) }},
		{wire.LevelWrite, func(p *person) *answer {
			return p.post("/channels/"+r.channel.ID+"/threads", wire.NewThread{Title: "t", ClientMsgID: newID(), ContentMD: "x"})
		}},
		{wire.LevelManage, func(p *person) *answer { return p.put("/threads/"+r.thread+"/pins/"+sent.ID, nil) }},
		{wire.LevelManage, func(p *person) *answer { return p.patch("/channels/"+r.channel.ID, object{"topic": newID()}) }},
		{wire.LevelManage, func(p *person) *answer { return p.get("/channels/" + r.channel.ID + "/settings") }},
		{wire.LevelOwner, func(p *person) *answer {
			return p.post("/grants", wire.NewGrant{
				Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: p.id},
				Target:  wire.Target{Kind: wire.TargetChannel, ID: r.channel.ID}, Level: wire.LevelRead,
			})
		}},
	}
	for _, level := range []wire.Level{wire.LevelRead, wire.LevelWrite, wire.LevelTrigger, wire.LevelManage, wire.LevelOwner} {
		p := r.joined(level)
		for i, deed := range deeds {
			a := deed.do(p)
			if level.Rank() < deed.least.Rank() {
				a.refused(code.Forbidden)
				continue
			}
			require.NoError(t, a.failure)
			require.Less(t, a.status, 300, "%s, deed %d: %s", level, i, a)
		}
	}
	mine := r.say(r.anna, "anna's")
	manager := r.joined(wire.LevelManage)
	r.joined(wire.LevelTrigger).delete("/messages/" + mine.ID).refused(code.Forbidden)
	manager.delete("/messages/" + mine.ID).want(http.StatusNoContent)
}

// levelOn is the level that a snapshot states for a target.
func (p *person) levelOn(id string) wire.Level {
	for _, access := range p.snapshot().Access {
		if access.ID == id {
			return access.Level
		}
	}
	return wire.LevelNone
}

func caseHighest(t *trial) {
	r := t.room()
	other := r.newChannel(wire.ChannelText)
	on := func(kind wire.TargetKind, id string, level wire.Level) wire.Grant {
		return r.grants(wire.NewGrant{
			Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: r.anna.id}, Target: wire.Target{Kind: kind, ID: id}, Level: level,
		})
	}
	require.Equal(t, wire.LevelWrite, r.anna.levelOn(r.channel.ID))
	require.Equal(t, wire.LevelNone, r.anna.levelOn(other.ID), "a channel granted by itself")
	require.Len(t, r.anna.snapshot().Spaces, 1, "a space is visible to whoever sees one of its channels")
	space := on(wire.TargetSpace, r.space.ID, wire.LevelManage)
	require.Equal(t, wire.LevelManage, r.anna.levelOn(r.channel.ID))
	require.Equal(t, wire.LevelManage, r.anna.levelOn(other.ID))
	r.revoke(space)
	require.Equal(t, wire.LevelWrite, r.anna.levelOn(r.channel.ID))
	instance := on(wire.TargetInstance, "", wire.LevelRead)
	require.Equal(t, wire.LevelRead, r.anna.levelOn(other.ID))
	require.Equal(t, wire.LevelWrite, r.anna.levelOn(r.channel.ID))
	r.revoke(instance)
	require.Equal(t, wire.LevelNone, r.anna.levelOn(other.ID))
}

func caseCaps(t *trial) {
	r := t.room()
	manager := r.joined(wire.LevelManage)
	message := func() wire.NewMessage { return wire.NewMessage{ClientMsgID: newID(), ContentMD: "x"} }
	path := "/threads/" + r.thread + "/messages"
	manager.patch("/channels/"+r.channel.ID, object{"read_only": true}).want(http.StatusOK)
	r.anna.post(path, message()).refused(code.Forbidden)
	r.anna.get(path).want(http.StatusOK)
	manager.post(path, message()).want(http.StatusCreated)
	manager.patch("/channels/"+r.channel.ID, object{"read_only": false}).want(http.StatusOK)
	r.anna.post(path, message()).want(http.StatusCreated)
	manager.post("/channels/"+r.channel.ID+"/archive", object{}).want(http.StatusOK)
	for _, p := range []*person{r.anna, manager, r.owner} {
		p.post(path, message()).refused(code.Forbidden)
		p.get(path).want(http.StatusOK)
	}
	r.anna.post("/channels/"+r.channel.ID+"/unarchive", object{}).refused(code.Forbidden)
	manager.post("/channels/"+r.channel.ID+"/unarchive", object{}).want(http.StatusOK)
	r.anna.post(path, message()).want(http.StatusCreated)
	r.owner.post("/spaces/"+r.space.ID+"/archive", object{}).want(http.StatusOK)
	r.anna.post(path, message()).refused(code.Forbidden)
}

func caseLastOwner(t *trial) {
	owner := t.owner()
	grants := read[wire.Page[wire.Grant]](owner.get("/grants?target_kind=instance"), http.StatusOK).Items
	require.NotEmpty(t, grants)
	for _, grant := range grants {
		if grant.Level == wire.LevelOwner && grant.Subject.ID == owner.id {
			owner.post("/grants/"+grant.ID+"/revoke", object{}).refused(code.LastOwner)
		}
	}
	owner.post("/users/"+owner.id+"/disable", object{}).refused(code.LastOwner)
	owner.get("/me").want(http.StatusOK)
}

func caseRates(t *trial) {
	r := t.room()
	for name, ask := range map[string]func() *answer{
		"rl.search": func() *answer { return r.anna.get("/search?q=words") },
		"rl.write":  func() *answer { return r.anna.put("/settings/a", object{"value": 1}) },
	} {
		limited := false
		for range 400 { // each node counts by itself
			if a := ask(); a.status == http.StatusTooManyRequests {
				require.Positive(t, a.refused(code.RateLimited).RetryAfter, name)
				limited = true
				break
			}
		}
		require.True(t, limited, name)
	}
}

func caseInvisible(t *trial) {
	r := t.room()
	hidden := r.newChannel(wire.ChannelText)
	sent := r.sayIn(r.owner, hidden.MainThreadID, "hidden")
	stranger := t.member(r.owner)
	for _, id := range []string{hidden.ID, newID()} {
		r.anna.get("/channels/" + id).refused(code.NotFound)
		r.anna.patch("/channels/"+id, object{"topic": "x"}).refused(code.NotFound)
		r.anna.post("/channels/"+id+"/threads", wire.NewThread{Title: "t", ClientMsgID: newID(), ContentMD: "x"}).refused(code.NotFound)
	}
	for _, id := range []string{sent.ID, newID()} {
		r.anna.get("/messages/" + id).refused(code.NotFound)
		r.anna.delete("/messages/" + id).refused(code.NotFound)
		r.anna.put("/messages/"+id+"/reactions/👍", nil).refused(code.NotFound)
	}
	stranger.get("/spaces/" + r.space.ID).refused(code.NotFound)
	mine := r.say(r.anna, "x")
	of := func(id string) wire.Problem {
		in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "x", ReplyToID: id}
		problem := r.anna.post("/threads/"+r.thread+"/messages", in).refused(code.ValidationFailed)
		problem.TraceID = ""
		return problem
	}
	require.Equal(t, of(newID()), of(sent.ID), "an id in a body that one may not use is like one that does not exist")
	r.anna.post("/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "x", ReplyToID: mine.ID}).want(http.StatusCreated)
	r.anna.patch("/channels/"+r.channel.ID, object{"topic": "x"}).refused(code.Forbidden)
	found := read[wire.Page[wire.Message]](r.anna.get("/search?q=hidden"), http.StatusOK)
	require.Empty(t, found.Items)
}

func caseRefusals(t *trial) {
	r := t.room()
	sent := r.say(r.owner, "x")
	bad, path := object{"content_md": 7}, "/messages/"
	r.anna.exchange(http.MethodPatch, api+path+newID(), bad, nil).refused(code.InvalidToken)                // authenticate first
	r.anna.patch(path+newID(), bad).refused(code.ValidationFailed)                                          // decode before 404
	r.anna.patch(path+newID(), wire.EditMessage{ContentMD: "y"}, ifMatch(9)).refused(code.NotFound)         // 404 before the rest
	r.anna.patch(path+sent.ID, wire.EditMessage{ContentMD: "y"}).refused(code.Forbidden)                    // 403 before 428
	r.owner.patch(path+sent.ID, wire.EditMessage{ContentMD: "y"}).refused(code.PreconditionRequired)        // 428
	r.owner.patch(path+sent.ID, wire.EditMessage{ContentMD: "y"}, ifMatch(9)).refused(code.VersionConflict) // 412
	r.owner.delete(path + sent.ID).want(http.StatusNoContent)
	r.owner.patch(path+sent.ID, wire.EditMessage{ContentMD: "y"}, ifMatch(9)).refused(code.MessageDeleted) // 410 before 412
	r.owner.patch(path+sent.ID, wire.EditMessage{ContentMD: "y"}).refused(code.PreconditionRequired)       // 428 before 410
	r.anna.patch("/channels/"+r.channel.ID, object{"topic": "x"}, ifMatch(99)).refused(code.Forbidden)     // 403 before 412
	key := once(newID())
	in := wire.PatchChannel{Topic: &sent.ContentMD}
	r.owner.patch("/channels/"+r.channel.ID, in, ifMatch(r.channel.Version), key).want(http.StatusOK)
	require.True(t, r.owner.patch("/channels/"+r.channel.ID, in, ifMatch(r.channel.Version), key).want(http.StatusOK).replayed(), "a replay before 412")
}

func caseOneChange(t *trial) {
	r := t.room()
	group := read[wire.Group](r.owner.post("/groups", wire.NewGroup{Name: "group " + newID()}), http.StatusCreated)
	ben, cleo := t.member(r.owner), t.member(r.owner)
	for _, p := range []*person{ben, cleo} {
		r.owner.put("/groups/"+group.ID+"/members/"+p.id, wire.PutMember{}).want(http.StatusOK)
	}
	bens, cleos := ben.connect(), cleo.connect()
	grant := r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectGroup, ID: group.ID}, Target: wire.Target{Kind: wire.TargetChannel, ID: r.channel.ID}, Level: wire.LevelWrite,
	})
	one, two := bens.accessChanged(), cleos.accessChanged()
	require.Equal(t, one, two, "one version for all it touches")
	require.NotContains(t, types(append(bens.settled(), cleos.settled()...)), "access.changed", "one each")
	rows := 0
	for _, entry := range read[wire.Page[wire.AuditEntry]](r.owner.get("/audit?limit=100"), http.StatusOK).Items {
		if entry.TargetID == grant.ID {
			rows++
			require.WithinDuration(t, time.Now(), entry.At, 10*time.Minute)
		}
	}
	require.Equal(t, 1, rows)
}

func caseInstanceLevels(t *trial) {
	r := t.room()
	on := func(p *person, level wire.Level) {
		r.grants(wire.NewGrant{
			Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: p.id}, Target: wire.Target{Kind: wire.TargetInstance}, Level: level,
		})
	}
	writer, manager, second := t.member(r.owner), t.member(r.owner), t.member(r.owner)
	on(writer, wire.LevelWrite)
	on(manager, wire.LevelManage)
	on(second, wire.LevelOwner)
	writer.post("/spaces", wire.NewSpace{Name: "no"}).refused(code.Forbidden)
	manager.post("/spaces", wire.NewSpace{Name: "yes " + newID()}).want(http.StatusCreated)
	for _, path := range []string{"/users", "/agents", "/apps"} {
		in := wire.NewPrincipal{Handle: "h" + newID()[24:], DisplayName: "x"}
		manager.post(path, in).refused(code.Forbidden)
		second.post(path, in).want(http.StatusCreated)
	}
	manager.post("/groups", wire.NewGroup{Name: "no"}).refused(code.Forbidden)
	second.post("/groups", wire.NewGroup{Name: "yes " + newID()}).want(http.StatusCreated)
	mine := r.say(r.anna, "x")
	manager.patch("/messages/"+mine.ID, wire.EditMessage{ContentMD: "y"}, ifMatch(mine.Version)).refused(code.Forbidden)
	manager.delete("/messages/" + mine.ID).want(http.StatusNoContent)
	for _, grant := range read[wire.Page[wire.Grant]](r.owner.get("/grants?subject_kind=principal&subject_id="+second.id), http.StatusOK).Items {
		r.revoke(grant)
	}
}

func casePeopleSeen(t *trial) {
	r := t.room()
	ben, stranger := r.joined(wire.LevelRead), t.member(r.owner)
	seen := map[string]bool{}
	for _, one := range read[wire.Page[wire.Principal]](r.anna.get("/users?limit=100"), http.StatusOK).Items {
		seen[one.ID] = true
	}
	require.True(t, seen[ben.id])
	require.True(t, seen[r.anna.id])
	require.False(t, seen[stranger.id])
	r.anna.get("/users/" + stranger.id).refused(code.NotFound)
	r.anna.get("/users/" + ben.id).want(http.StatusOK)
}
