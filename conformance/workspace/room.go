package workspace

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// room is a space of its own with one text channel, its owner, and a person who may write in the channel.
type room struct {
	t       *trial
	owner   *person
	anna    *person
	space   wire.Space
	channel wire.Channel
	thread  string // the main one of channel
}

func (t *trial) room() *room {
	owner := t.owner()
	r := &room{t: t, owner: owner, anna: t.member(owner)}
	r.space = read[wire.Space](owner.post("/spaces", wire.NewSpace{Name: "conformance " + newID()}), http.StatusCreated)
	r.channel = r.newChannel(wire.ChannelText)
	r.thread = r.channel.MainThreadID
	r.grant(r.anna, wire.LevelWrite)
	return r
}

func (r *room) newChannel(kind wire.ChannelKind) wire.Channel {
	in := wire.NewChannel{SpaceID: r.space.ID, Kind: kind, Name: "channel " + newID()}
	return read[wire.Channel](r.owner.post("/channels", in), http.StatusCreated)
}

// grant gives p a level on the channel of the room.
func (r *room) grant(p *person, level wire.Level) wire.Grant {
	return r.grantOn(p, r.channel.ID, level)
}

func (r *room) grantOn(p *person, channel string, level wire.Level) wire.Grant {
	return r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: p.id}, Target: wire.Target{Kind: wire.TargetChannel, ID: channel}, Level: level,
	})
}

func (r *room) grants(in wire.NewGrant) wire.Grant {
	return read[wire.Grant](r.owner.post("/grants", in), http.StatusCreated)
}

func (r *room) revoke(grant wire.Grant) {
	r.owner.post("/grants/"+grant.ID+"/revoke", object{}).want(http.StatusOK)
}

// annas answers the grant of anna on the channel.
func (r *room) annas() wire.Grant {
	page := read[wire.Page[wire.Grant]](r.owner.get("/grants?subject_kind=principal&subject_id="+r.anna.id), http.StatusOK)
	require.Len(r.t, page.Items, 1)
	return page.Items[0]
}

// joined is one more person with a level on the channel.
func (r *room) joined(level wire.Level) *person {
	p := r.t.member(r.owner)
	r.grant(p, level)
	return p
}

// say sends a message as p.
func (r *room) say(p *person, text string) wire.Message { return r.sayIn(p, r.thread, text) }

func (r *room) sayIn(p *person, thread, text string) wire.Message {
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: text}
	return read[wire.Message](p.post("/threads/"+thread+"/messages", in), http.StatusCreated)
}

// start starts a thread in a channel as p.
func (r *room) start(p *person, channel, title string) wire.ThreadStarted {
	in := wire.NewThread{Title: title, ClientMsgID: newID(), ContentMD: "first"}
	return read[wire.ThreadStarted](p.post("/channels/"+channel+"/threads", in), http.StatusCreated)
}

func (r *room) message(p *person, id string) wire.Message {
	return read[wire.Message](p.get("/messages/"+id), http.StatusOK)
}

// messages reads a thread's messages.
func (r *room) messages(p *person, query string) wire.Messages {
	return read[wire.Messages](p.get("/threads/"+r.thread+"/messages"+query), http.StatusOK)
}

func (p *person) snapshot() wire.Snapshot {
	return read[wire.Snapshot](p.get("/sync/snapshot"), http.StatusOK)
}

// events reads the log after a cursor, page by page, and checks the order.
func (p *person) events(after int64) []wire.Envelope {
	var all []wire.Envelope
	for {
		page := read[wire.Events](p.get(fmt.Sprintf("/events?after=%d", after)), http.StatusOK)
		for _, event := range page.Events {
			require.Greater(p.t, event.Seq, after, "ES-3.1 ascending, nothing twice")
			after = event.Seq
		}
		require.GreaterOrEqual(p.t, page.NextCursor, after)
		require.LessOrEqual(p.t, page.NextCursor, page.HeadSeq)
		after = page.NextCursor
		all = append(all, page.Events...)
		if after >= page.HeadSeq {
			return all
		}
	}
}

// head answers where the log ends for p.
func (p *person) head() int64 { return p.snapshot().HeadSeq }

// types answers the types of events in order.
func types(events []wire.Envelope) []string {
	names := make([]string, len(events))
	for i, event := range events {
		names[i] = event.Type
	}
	return names
}

// only answers the events of some types.
func only(events []wire.Envelope, names ...string) []wire.Envelope {
	return slices.DeleteFunc(slices.Clone(events), func(e wire.Envelope) bool { return !slices.Contains(names, e.Type) })
}

// payload decodes what an event carries.
func payload[T any](t *trial, e wire.Envelope) T {
	var value T
	require.NoError(t, decode(e.Payload, &value), "%s", e.Payload)
	return value
}
