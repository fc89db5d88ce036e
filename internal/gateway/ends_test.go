package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// told answers the kinds of the events that the client was sent until now.
func (c *client) told() []string {
	c.send(wire.OpHeartbeat, wire.Heartbeat{Ref: "x"})
	var kinds []string
	for {
		switch frame := c.next(); frame.Op {
		case wire.OpHeartbeatAck:
			return kinds
		case wire.OpDispatch:
			kinds = append(kinds, body[wire.Envelope](c, frame).Type)
		}
	}
}

// passes waits until a moment is over, for the database too.
func passes(t *testing.T, at time.Time) {
	t.Helper()
	require.Eventually(t, func() bool { return time.Since(at) > 200*time.Millisecond }, time.Minute, 10*time.Millisecond)
}

// ending is a person with a channel to read until a moment, connected, and what changes that end.
type ending struct {
	*world

	node    *node
	authz   *authz.Service
	owner   authz.Caller
	person  string
	channel string
	thread  string
	group   wire.Group
	ends    time.Time
}

func (e *ending) grantForever(t *testing.T, level wire.Level) {
	t.Helper()
	_, err := e.authz.CreateGrant(t.Context(), e.owner, wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: e.person}, Target: wire.Target{Kind: wire.TargetChannel, ID: e.channel}, Level: level,
	})
	require.NoError(t, err)
}

func (e *ending) membership(t *testing.T, ends *time.Time) {
	t.Helper()
	_, err := e.authz.PutMember(t.Context(), e.owner, e.group.ID, e.person, wire.PutMember{ExpiresAt: ends})
	require.NoError(t, err)
}

// lookInto makes the person and a group that reads the channel.
func (e *ending) lookInto(t *testing.T) {
	t.Helper()
	e.person, e.channel = e.world.person(t.Name()), e.world.channel()
	e.thread = e.world.thread(e.channel)
	var err error
	e.group, err = e.authz.CreateGroup(t.Context(), e.owner, wire.NewGroup{Name: t.Name()[max(0, len(t.Name())-40):]})
	require.NoError(t, err)
	_, err = e.authz.CreateGrant(t.Context(), e.owner, wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectGroup, ID: e.group.ID}, Target: wire.Target{Kind: wire.TargetChannel, ID: e.channel}, Level: wire.LevelRead,
	})
	require.NoError(t, err)
	e.ends = time.Now().Add(time.Second)
}

// Whoever is connected receives exactly as long as the permissions of the database say, whatever moved their end.
func TestEndsThatMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first  func(t *testing.T, e *ending) // before the person connects
		then   func(t *testing.T, e *ending) // while connected, before the end
		late   func(t *testing.T, e *ending) // after the end, before any sweep
		hears  bool
		before []string // what is told in between
	}{
		"renewed in time": {
			first: func(_ *testing.T, e *ending) { e.node.grant(e.person, e.channel, wire.LevelRead, e.ends) },
			then:  func(t *testing.T, e *ending) { t.Helper(); e.grantForever(t, wire.LevelRead) },
			hears: true, before: []string{eventlog.AccessChanged},
		},
		"renewed too late": {
			first: func(_ *testing.T, e *ending) { e.node.grant(e.person, e.channel, wire.LevelRead, e.ends) },
			late:  func(t *testing.T, e *ending) { t.Helper(); e.grantForever(t, wire.LevelRead) },
			hears: true, before: []string{eventlog.AccessChanged, eventlog.AccessChanged},
		},
		"a membership is extended": {
			first: func(t *testing.T, e *ending) { t.Helper(); e.membership(t, &e.ends) },
			then: func(t *testing.T, e *ending) {
				t.Helper()
				later := e.ends.Add(time.Hour)
				e.membership(t, &later)
			},
			hears: true, before: []string{eventlog.AccessChanged},
		},
		"a membership is shortened": {
			first:  func(t *testing.T, e *ending) { t.Helper(); e.membership(t, nil) },
			then:   func(t *testing.T, e *ending) { t.Helper(); e.membership(t, &e.ends) },
			before: []string{eventlog.AccessChanged},
		},
		"what never ends is revoked": {
			first: func(t *testing.T, e *ending) {
				t.Helper()
				e.node.grant(e.person, e.channel, wire.LevelRead, e.ends)
				e.membership(t, nil)
			},
			then: func(t *testing.T, e *ending) {
				t.Helper()
				require.NoError(t, e.authz.RemoveMember(t.Context(), e.owner, e.group.ID, e.person))
			},
			before: []string{eventlog.AccessChanged},
		},
		"what changes nothing": {
			first: func(t *testing.T, e *ending) { t.Helper(); e.grantForever(t, wire.LevelRead) },
			then:  func(_ *testing.T, e *ending) { e.node.grant(e.person, e.channel, wire.LevelRead, e.ends) },
			hears: true,
		},
	} {
		t.Run("ES-8.2 "+name, func(t *testing.T) {
			t.Parallel()
			testkit.Each(t, func(t *testing.T, db *testkit.Database) {
				w := newWorld(t, db)
				n := w.node()
				e := &ending{world: w, node: n, authz: authz.New(n.db, n.log, w.env),
					owner: authz.Caller{Principal: w.owner, Kind: wire.KindUser, AuthTime: time.Now(), StepUpMaxAge: time.Hour}}
				e.lookInto(t)
				c.first(t, e)
				n.settled()
				device := n.connect(w.device(e.person))
				if c.then != nil {
					c.then(t, e)
				}
				passes(t, e.ends)
				if c.late != nil {
					c.late(t, e)
				}
				n.settled()
				require.Equal(t, c.before, device.told())
				n.emit(w.message(e.channel, e.thread, "after"))
				n.settled()
				if c.hears {
					require.Equal(t, []string{eventlog.MessageCreated}, device.told())
				} else {
					require.Empty(t, device.told())
				}
			})
		})
	}
}

// A level that a read-only channel hides is known when it no longer is.
func TestGrantUnderReadOnly(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db)
		channel := w.channel()
		thread := w.thread(channel)
		w.exec(`UPDATE channels SET read_only = TRUE, version = 2 WHERE id = $1`, channel)
		n := w.node()
		anna := w.person("anna")
		n.grant(anna, channel, wire.LevelRead)
		n.settled()
		c := n.connect(w.device(anna))
		n.grant(anna, channel, wire.LevelWrite)
		w.exec(`UPDATE channels SET read_only = FALSE, version = 3 WHERE id = $1`, channel)
		n.emit(eventlog.Event{
			Type: eventlog.ChannelUpdated, Scope: w.scope(channel, ""), ResourceID: channel, ResourceVersion: 3,
			Payload: wire.ChannelEvent{Channel: wire.Channel{ID: channel, SpaceID: w.space, Kind: wire.ChannelText, Name: "c", Version: 3}},
		})
		n.settled()
		c.send(wire.OpTypingStart, wire.Typing{ThreadID: thread})
		c.send(wire.OpHeartbeat, wire.Heartbeat{Ref: "x"})
		for op := ""; op != wire.OpHeartbeatAck; {
			frame := c.next()
			require.NotEqual(t, wire.OpError, frame.Op, "%s", frame.D)
			op = frame.Op
		}
	})
}
