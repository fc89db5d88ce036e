package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	client "github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// spoken is how many messages each person sends when all talk at once.
const spoken = 8

// firsts are the devices people work on.
func (s *stage) firsts() []*device {
	var all []*device
	for _, p := range s.people() {
		all = append(all, p.first())
	}
	return all
}

// talk is a conversation in which messages are also edited, deleted, reacted to and pinned.
func talk(ctx context.Context, s *stage) error {
	main := s.general.MainThreadID
	err := together(s.firsts(), func(d *device) error {
		for i := range spoken {
			if err := d.send(ctx, main, fmt.Sprintf("%s, line %d", d.owner.called, i+1)); err != nil {
				return err
			}
		}
		return d.account.Outbox().Idle(ctx)
	})
	if err != nil {
		return err
	}
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	if err := s.say("all five at once", "write %d messages into #general; every device shows the same order", spoken*len(s.people())); err != nil {
		return err
	}
	for _, step := range []func(context.Context, string) error{s.react, s.editTwice, s.remove} {
		if err := step(ctx, main); err != nil {
			return err
		}
	}
	return s.level(ctx, s.devices()...)
}

// react lets everybody react to one message, and Ada pin it.
func (s *stage) react(ctx context.Context, main string) error {
	err := together(s.firsts(), func(d *device) error {
		message, err := d.message(main, "Ada, line 1")
		if err != nil {
			return err
		}
		failed := drop1(d.account.Outbox().React(ctx, message, "👍", true))
		if d.owner == s.chen || d.owner == s.emil {
			failed = errors.Join(failed, drop1(d.account.Outbox().React(ctx, message, "🎉", true)))
		}
		if d.owner == s.emil {
			failed = errors.Join(failed, drop1(d.account.Outbox().React(ctx, message, "👍", false)))
		}
		return errors.Join(failed, d.account.Outbox().Idle(ctx))
	})
	if err != nil {
		return err
	}
	message, err := s.laptop.message(main, "Ada, line 1")
	if err != nil {
		return err
	}
	pinned := drop1(s.laptop.account.Outbox().Pin(ctx, message, true))
	return errors.Join(pinned, s.laptop.account.Outbox().Idle(ctx), s.say("reactions", "👍 from five, one takes it back, 🎉 from two; Ada pins the message"))
}

// editTwice edits one message on two devices that both know the same version: the second is asked what to do.
func (s *stage) editTwice(ctx context.Context, main string) error {
	message, err := s.desktop.message(main, "Bruno, line 2")
	if err != nil {
		return err
	}
	for _, one := range []struct {
		on   *device
		text string
	}{{s.desktop, "Bruno, line 2, corrected"}, {s.tablet, "Bruno, line 2, corrected elsewhere"}} {
		if err := drop1(one.on.account.Outbox().Edit(ctx, message, one.text)); err != nil {
			return err
		}
		if err := one.on.account.Outbox().Idle(ctx); err != nil {
			return err
		}
	}
	waiting := s.tablet.account.Outbox().Entries()
	if len(waiting) != 1 || waiting[0].State != client.EntryConflict || waiting[0].Problem == nil {
		return fmt.Errorf("the second edit of one version is no conflict: %+v", waiting)
	}
	var current wire.Message
	if err := json.Unmarshal(waiting[0].Problem.Current, &current); err != nil {
		return fmt.Errorf("read the current message of a conflict: %w", err)
	}
	both := current.ContentMD + ", and elsewhere"
	resolved := drop1(s.tablet.account.Outbox().Resolve(ctx, waiting[0].ID, both, current.Version))
	return errors.Join(resolved, s.tablet.account.Outbox().Idle(ctx),
		s.say(s.tablet.name, "edits what the desktop has edited: a conflict shows both, and is resolved"))
}

// remove deletes one's own message, and by who manages the channel somebody else's.
func (s *stage) remove(ctx context.Context, main string) error {
	own, err := s.dara.first().message(main, "Dara, line 3")
	if err != nil {
		return err
	}
	other, err := s.laptop.message(main, "Emil, line 4")
	if err != nil {
		return err
	}
	failed := errors.Join(
		drop1(s.dara.first().account.Outbox().Delete(ctx, own)), s.dara.first().account.Outbox().Idle(ctx),
		drop1(s.laptop.account.Outbox().Delete(ctx, other)), s.laptop.account.Outbox().Idle(ctx),
	)
	return errors.Join(failed, s.say("deletions", "Dara deletes a message of hers, Ada one of Emil's; tombstones stay"))
}

// discuss posts in a forum: done, reopened by an answer, moved to another forum.
func discuss(ctx context.Context, s *stage) error {
	chen := s.chen.first()
	posts := []string{"A quieter office", "Bicycles", "Lights"}
	for _, title := range posts {
		if err := drop1(chen.account.Outbox().StartThread(ctx, s.ideas.ID, title, client.Text{ContentMD: title + ": what do you think, @emil?"})); err != nil {
			return err
		}
	}
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	for _, d := range s.devices() {
		for _, thread := range d.account.State().Threads(s.ideas.ID) {
			d.account.OpenThread(thread.ID)
		}
	}
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	if err := s.say(chen.name, "posts three ideas and asks Emil"); err != nil {
		return err
	}
	return s.decide(ctx, posts)
}

// decide closes, reopens and moves what was posted.
func (s *stage) decide(ctx context.Context, posts []string) error {
	ids := map[string]string{}
	for _, thread := range s.laptop.account.State().Threads(s.ideas.ID) {
		ids[thread.Title] = thread.ID
	}
	emil, ada := s.emil.first(), s.laptop
	do := func(d *device, queued error) error { return errors.Join(queued, d.account.Outbox().Idle(ctx)) }
	failed := errors.Join(
		do(ada, drop1(ada.account.Outbox().CloseThread(ctx, ids[posts[0]], true))),
		do(emil, emil.send(ctx, ids[posts[0]], "I would like to try it before it is done.")),
		do(ada, drop1(ada.account.Outbox().CloseThread(ctx, ids[posts[1]], true))),
		do(ada, drop1(ada.account.Outbox().CloseThread(ctx, ids[posts[1]], false))),
		do(ada, drop1(ada.account.Outbox().CloseThread(ctx, ids[posts[2]], true))),
		drop1(ada.account.Client().MoveThread(ctx, ids[posts[0]], s.roadmap.ID)),
		s.level(ctx, s.devices()...),
	)
	if failed != nil {
		return failed
	}
	moved, _ := s.tablet.account.State().Thread(ids[posts[0]])
	if moved.State != wire.ThreadOpen || moved.ChannelID != s.roadmap.ID {
		return fmt.Errorf("the moved post is %s in channel %s on %s", moved.State, moved.ChannelID, s.tablet.name)
	}
	return s.say(ada.name, "marks them done; an answer of Emil's reopens one, which moves to the roadmap, Ada another one")
}

// personal is what the two devices of Ada share.
func personal(ctx context.Context, s *stage) error {
	main := s.general.MainThreadID
	laptop, phone := s.laptop.account, s.phone.account
	if err := drop1(laptop.Outbox().PutDraft(ctx, main, wire.PutDraft{ContentMD: "See you"})); err != nil {
		return err
	}
	if err := s.level(ctx, s.laptop, s.phone); err != nil {
		return err
	}
	if draft, there := phone.State().Draft(main); !there || draft.ContentMD != "See you" {
		return fmt.Errorf("the draft did not reach %s", s.phone.name)
	}
	if err := s.say(s.phone.name, "shows the draft that was begun on the laptop, and sends it"); err != nil {
		return err
	}
	thread, _ := phone.State().Thread(main)
	failed := errors.Join(
		drop1(phone.Outbox().Send(ctx, main, client.Text{ContentMD: "See you on Thursday.", ClearDraft: true})),
		drop1(phone.Outbox().MarkRead(ctx, main, thread.LastMessageSeq+1)),
		drop1(phone.Client().PutSetting(ctx, "theme", json.RawMessage(`{"name":"dark"}`))),
		drop1(laptop.Client().PutSidebar(ctx, s.workshop.ID, json.RawMessage(`{"order":["general","leads"]}`))),
		drop1(laptop.Client().PutNotificationPref(ctx, "channel", s.general.ID, wire.PutNotificationPref{Level: "mentions"})),
		s.level(ctx, s.laptop, s.phone),
	)
	if failed != nil {
		return failed
	}
	if _, there := laptop.State().Draft(main); there {
		return fmt.Errorf("the draft is still on %s", s.laptop.name)
	}
	if unread, _ := laptop.State().Unread(main); unread != 0 {
		return fmt.Errorf("%d messages are unread on %s", unread, s.laptop.name)
	}
	return s.say(s.laptop.name, "has no draft and nothing unread there any more; settings and the sidebar follow, too")
}
