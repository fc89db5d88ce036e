package servertest

import (
	"net/http"
	"testing"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

const api = "/api/v1"

// Space makes a space, which the person then owns.
func (p *Person) Space(t testing.TB, name string) wire.Space {
	t.Helper()
	return Read[wire.Space](t, p.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: name}), http.StatusCreated)
}

// Channel makes a text channel in a space.
func (p *Person) Channel(t testing.TB, spaceID, name string) wire.Channel {
	t.Helper()
	in := wire.NewChannel{SpaceID: spaceID, Kind: wire.ChannelText, Name: name}
	return Read[wire.Channel](t, p.Do(t, http.MethodPost, api+"/channels", in), http.StatusCreated)
}

// Forum makes a forum in a space.
func (p *Person) Forum(t testing.TB, spaceID, name string) wire.Channel {
	t.Helper()
	in := wire.NewChannel{SpaceID: spaceID, Kind: wire.ChannelForum, Name: name}
	return Read[wire.Channel](t, p.Do(t, http.MethodPost, api+"/channels", in), http.StatusCreated)
}

// Post starts a thread of a channel.
func (p *Person) Post(t testing.TB, channelID, title, text string) wire.ThreadStarted {
	t.Helper()
	in := wire.NewThread{Title: title, ClientMsgID: NewID(), ContentMD: text}
	return Read[wire.ThreadStarted](t, p.Do(t, http.MethodPost, api+"/channels/"+channelID+"/threads", in), http.StatusCreated)
}

// Say sends a message.
func (p *Person) Say(t testing.TB, threadID, text string) wire.Message {
	t.Helper()
	in := wire.NewMessage{ClientMsgID: NewID(), ContentMD: text}
	return Read[wire.Message](t, p.Do(t, http.MethodPost, api+"/threads/"+threadID+"/messages", in), http.StatusCreated)
}

// Grant gives somebody a level on a target; the instance has no id.
func (p *Person) Grant(t testing.TB, principalID string, kind wire.TargetKind, id string, level wire.Level) wire.Grant {
	t.Helper()
	in := wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: principalID}, Target: wire.Target{Kind: kind, ID: id}, Level: level,
	}
	return Read[wire.Grant](t, p.Do(t, http.MethodPost, api+"/grants", in), http.StatusCreated)
}

// Revoke ends a grant.
func (p *Person) Revoke(t testing.TB, grantID string) {
	t.Helper()
	Read[wire.Grant](t, p.Do(t, http.MethodPost, api+"/grants/"+grantID+"/revoke", struct{}{}), http.StatusOK)
}
