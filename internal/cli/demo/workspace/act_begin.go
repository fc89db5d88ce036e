package workspace

import (
	"context"
	"errors"
	"fmt"

	client "github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// domain is where the people of the demonstration have their addresses: that of the exports.
const domain = "@demo.example"

// begin starts the server and makes people, sign-ins, spaces and channels.
func begin(ctx context.Context, s *stage) error {
	if err := s.serve(ctx); err != nil {
		return err
	}
	if err := s.say("the server", "serves %s", s.server.url); err != nil {
		return err
	}
	if err := s.addPeople(ctx); err != nil {
		return err
	}
	for _, d := range s.devices() {
		if err := d.open(ctx); err != nil {
			return err
		}
	}
	if err := s.signInAll(ctx); err != nil {
		return err
	}
	if err := s.say("everybody", "signs in with a login code, a second device with one made on the first"); err != nil {
		return err
	}
	return s.furnish(ctx)
}

func (s *stage) addPeople(ctx context.Context) error {
	var there struct{ Users []struct{} }
	if err := s.run(ctx, "", &there, "user", "list"); err != nil {
		return err
	}
	if len(there.Users) > 0 {
		return errors.New("the database has people already: the demonstration needs an empty one")
	}
	for _, p := range s.people() {
		var added struct {
			UserID string `json:"user_id"`
		}
		if err := s.run(ctx, "", &added, "user", "add", p.name, "--email", p.name+domain); err != nil {
			return err
		}
		p.id = added.UserID
	}
	return s.say("cairn user add", "Ada, who owns the instance, Bruno, Chen, Dara and Emil")
}

// signInAll signs every device in: the first of each person with a code of the command line, the second with one that the
// first makes.
func (s *stage) signInAll(ctx context.Context) error {
	for _, p := range s.people() {
		var made wire.LoginCode
		if err := s.run(ctx, "", &made, "user", "login-code", p.name); err != nil {
			return err
		}
		if err := p.first().signIn(ctx, made.Code); err != nil {
			return err
		}
		for _, d := range p.devices[1:] {
			made, err := p.first().account.Client().MakeLoginCode(ctx)
			if err != nil {
				return fmt.Errorf("make login code on %s: %w", p.first().name, err)
			}
			if err := d.signIn(ctx, made.Code); err != nil {
				return err
			}
		}
	}
	return nil
}

// furnish makes what Ada makes: spaces, channels, groups and grants.
func (s *stage) furnish(ctx context.Context) error {
	c := s.laptop.account.Client()
	failed := errors.Join(
		keep(&s.workshop)(c.CreateSpace(ctx, "Workshop")), keep(&s.studio)(c.CreateSpace(ctx, "Studio")),
		keep(&s.everyone)(c.CreateGroup(ctx, "everyone")), keep(&s.leads)(c.CreateGroup(ctx, "leads")),
	)
	if failed != nil {
		return failed
	}
	for _, p := range s.people() {
		failed = errors.Join(failed, drop1(c.PutMember(ctx, s.everyone.ID, p.id, wire.PutMember{})))
	}
	for _, p := range []*person{s.ada, s.bruno, s.dara} {
		failed = errors.Join(failed, drop1(c.PutMember(ctx, s.leads.ID, p.id, wire.PutMember{})))
	}
	channel := func(into *wire.Channel, kind wire.ChannelKind, name string) {
		failed = errors.Join(failed, keep(into)(c.CreateChannel(ctx, wire.NewChannel{SpaceID: s.workshop.ID, Kind: kind, Name: name})))
	}
	channel(&s.private, wire.ChannelText, "leads")
	channel(&s.uploads, wire.ChannelText, "uploads")
	channel(&s.ideas, wire.ChannelForum, "ideas")
	channel(&s.roadmap, wire.ChannelForum, "roadmap")
	if failed != nil {
		return failed
	}
	failed = errors.Join(
		s.grant(ctx, wire.SubjectGroup, s.everyone.ID, wire.Target{Kind: wire.TargetSpace, ID: s.studio.ID}),
		s.grant(ctx, wire.SubjectGroup, s.everyone.ID, on(s.ideas)), s.grant(ctx, wire.SubjectGroup, s.everyone.ID, on(s.roadmap)),
		s.grant(ctx, wire.SubjectGroup, s.leads.ID, on(s.private)),
		s.grant(ctx, wire.SubjectPrincipal, s.chen.id, on(s.uploads)), s.grant(ctx, wire.SubjectPrincipal, s.emil.id, on(s.uploads)),
	)
	return errors.Join(failed, s.say(s.laptop.name, "makes the spaces Workshop and Studio; #leads is granted to Ada, Bruno and Dara only"))
}

func on(channel wire.Channel) wire.Target {
	return wire.Target{Kind: wire.TargetChannel, ID: channel.ID}
}

func (s *stage) grant(ctx context.Context, kind, subject string, target wire.Target) error {
	return drop1(s.laptop.account.Client().CreateGrant(ctx, wire.NewGrant{
		Subject: wire.Subject{Kind: kind, ID: subject}, Target: target, Level: wire.LevelWrite,
	}))
}

// keep stores an answer, and drop1 forgets it; both pass its error on.
func keep[T any](into *T) func(T, error) error {
	return func(value T, err error) error {
		*into = value
		return err
	}
}

func drop1[T any](_ T, err error) error { return err }

// gather lets all devices connect and open what they see.
func gather(ctx context.Context, s *stage) error {
	for _, d := range s.devices() {
		d.start(ctx)
	}
	for _, p := range []*person{s.chen, s.emil} {
		p.first().hide(s.private.ID)
	}
	for _, p := range []*person{s.bruno, s.dara} {
		for _, d := range p.devices {
			d.hide(s.uploads.ID)
		}
	}
	if err := together(s.devices(), func(d *device) error { return d.openAll(ctx) }); err != nil {
		return err
	}
	for _, p := range s.people() {
		held := p.first().account.State().Export()
		names := p.first().name
		if len(p.devices) > 1 {
			names = p.called + "'s two"
		}
		err := s.say(names, "live, with %d spaces, %d channels, %d threads, %d messages",
			len(held.Spaces), len(held.Channels), len(held.Threads), len(held.Messages))
		if err != nil {
			return err
		}
	}
	return nil
}

// openAll opens every channel and every thread the device sees, and waits until they are there.
func (d *device) openAll(ctx context.Context) error {
	state := d.account.State()
	if err := d.account.Settle(ctx); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	for _, channel := range state.Channels("") {
		d.account.OpenChannel(channel.ID)
	}
	if err := d.account.Settle(ctx); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	for _, channel := range state.Channels("") {
		for _, thread := range state.Threads(channel.ID) {
			d.account.OpenThread(thread.ID)
		}
	}
	if err := d.account.Settle(ctx); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	d.fresh()
	return nil
}

// message finds a message of a thread by its text, as a device has it.
func (d *device) message(thread, text string) (wire.Message, error) {
	for _, message := range d.account.State().Messages(thread) {
		if message.ContentMD == text {
			return message, nil
		}
	}
	return wire.Message{}, fmt.Errorf("%s does not have the message %q", d.name, text)
}

// send queues a message.
func (d *device) send(ctx context.Context, thread, text string) error {
	return drop1(d.account.Outbox().Send(ctx, thread, client.Text{ContentMD: text}))
}
