package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The shapes of a Slack export, as far as they are read.
type (
	slackUser struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		RealName string `json:"real_name"`
		Profile  struct {
			DisplayName string `json:"display_name"`
			RealName    string `json:"real_name"`
			Email       string `json:"email"`
		} `json:"profile"`
	}
	slackChannel struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Topic struct {
			Value string `json:"value"`
		} `json:"topic"`
		Purpose struct {
			Value string `json:"value"`
		} `json:"purpose"`
		Pins []struct {
			ID string `json:"id"` // the time of the message
		} `json:"pins"`
	}
	slackMessage struct {
		Type     string `json:"type"`
		Subtype  string `json:"subtype"`
		User     string `json:"user"`
		BotID    string `json:"bot_id"`
		Username string `json:"username"`
		Text     string `json:"text"`
		TS       string `json:"ts"`
		ThreadTS string `json:"thread_ts"`
		Edited   *struct {
			TS string `json:"ts"`
		} `json:"edited"`
		Reactions []struct {
			Name  string   `json:"name"`
			Users []string `json:"users"`
		} `json:"reactions"`
		Files []struct {
			Name  string `json:"name"`
			Title string `json:"title"`
		} `json:"files"`
		PinnedTo []string `json:"pinned_to"`
		Profile  *struct {
			DisplayName string `json:"display_name"`
			RealName    string `json:"real_name"`
			Name        string `json:"name"`
		} `json:"user_profile"`
	}
)

// slackNews are kinds of messages that only say what happened to a channel.
var slackNews = []string{
	"channel_join", "channel_leave", "channel_topic", "channel_purpose", "channel_name", "channel_archive", "channel_unarchive",
	"group_join", "group_leave", "group_topic", "group_purpose", "group_name", "group_archive", "group_unarchive", "pinned_item",
	"unpinned_item", "channel_convert_to_private", "channel_posting_permissions", "tombstone",
}

// slackRun reads one export of Slack.
type slackRun struct {
	*run

	files    fs.FS
	people   map[string]person
	channels map[string]string // names by id, for what texts refer to
}

// person is an author as a batch names it.
type person struct{ name, email string }

func (r *run) readSlack(ctx context.Context) error {
	root, err := r.source.root("channels.json")
	if err != nil {
		return err
	}
	s := &slackRun{run: r, files: root, people: map[string]person{}, channels: map[string]string{}}
	if err := s.readPeople(); err != nil {
		return err
	}
	channels, err := s.readChannels()
	if err != nil {
		return err
	}
	skipping := s.position.At != ""
	for _, c := range channels {
		days, err := s.days(c)
		if err != nil {
			return err
		}
		for _, day := range days {
			if skipping {
				skipping = day != s.position.At
				continue
			}
			if err := s.readDay(ctx, c, day); err != nil {
				return err
			}
		}
	}
	if skipping { // the export is another one than then
		if err := s.position.move("", 0); err != nil {
			return err
		}
		return r.readSlack(ctx)
	}
	return nil
}

// list reads a file of the export that is a list; one that is not there is empty.
func list[T any](s *slackRun, name string, item func(n int64, value *T) error) error {
	file, err := s.files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read export: %w", err)
	}
	defer func() { _ = file.Close() }()
	var stopped error
	err = items(counted{file, &s.report.Read}, func(n int64, value *T) error {
		stopped = item(n, value)
		return stopped
	}, func(n int64, err error) { s.problemf(name, n, "%v", err) })
	if stopped != nil {
		return stopped
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.problemf(name, 0, "the rest cannot be read: %v", err)
	}
	return nil
}

func (s *slackRun) readPeople() error {
	return list(s, "users.json", func(_ int64, u *slackUser) error {
		s.people[u.ID] = person{name: firstOf(u.Profile.DisplayName, u.Profile.RealName, u.RealName, u.Name, u.ID), email: u.Profile.Email}
		return nil
	})
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			return text
		}
	}
	return ""
}

// readChannels lists the channels that come over, and counts the others.
func (s *slackRun) readChannels() ([]slackChannel, error) {
	var channels []slackChannel
	keep := func(file string) func(n int64, c *slackChannel) error {
		return func(n int64, c *slackChannel) error {
			if c.ID == "" || c.Name == "" || strings.ContainsAny(c.Name, `/\`) || c.Name == ".." || c.Name == "." {
				s.problemf(file, n, "the channel has no id or no name")
				return nil
			}
			s.channels[c.ID] = c.Name
			channels = append(channels, *c)
			return nil
		}
	}
	private := keep("groups.json")
	if !s.Private {
		private = func(_ int64, c *slackChannel) error {
			s.channels[c.ID] = c.Name
			s.left("private channels")
			return nil
		}
	}
	direct := func(int64, *slackChannel) error { s.left("direct messages"); return nil }
	for _, file := range []struct {
		name string
		item func(int64, *slackChannel) error
	}{{"channels.json", keep("channels.json")}, {"groups.json", private}, {"dms.json", direct}, {"mpims.json", direct}} {
		if err := list(s, file.name, file.item); err != nil {
			return nil, err
		}
	}
	return channels, nil
}

// days lists the files of a channel in their order.
func (s *slackRun) days(c slackChannel) ([]string, error) {
	entries, err := fs.ReadDir(s.files, c.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read export: %w", err)
	}
	var days []string
	for _, entry := range entries {
		if !entry.IsDir() && path.Ext(entry.Name()) == ".json" {
			days = append(days, path.Join(c.Name, entry.Name()))
		}
	}
	slices.Sort(days)
	return days, nil
}

func (s *slackRun) readDay(ctx context.Context, c slackChannel, day string) error {
	err := list(s, day, func(n int64, m *slackMessage) error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read export: %w", err)
		}
		return s.message(ctx, c, day, n, m)
	})
	if err != nil || s.Position == "" {
		return err
	}
	if err := s.batches.flush(ctx); err != nil {
		return err
	}
	return s.position.move(day, 0)
}

// message hands over one message.
func (s *slackRun) message(ctx context.Context, c slackChannel, day string, n int64, m *slackMessage) error {
	at, fine := slackTime(m.TS)
	switch {
	case m.Type != "" && m.Type != "message":
		s.left("other items")
		return nil
	case slices.Contains(slackNews, m.Subtype):
		s.left("news of channels")
		return nil
	case !fine:
		s.problemf(day, n, "the time %q cannot be read", m.TS)
		return nil
	}
	text := s.text(m)
	if text == "" {
		s.left("messages without text")
		return nil
	}
	author, who := s.author(m)
	made := wire.ImportMessage{
		SourceID: clean(c.ID+":"+m.TS, maxSource), AuthorSourceID: author, AuthorName: clean(who.name, maxPerson), AuthorEmail: who.email,
		ContentMD: text, CreatedAt: at, Pinned: c.pins(m), Reactions: s.reactions(m),
	}
	if m.Edited != nil {
		if edited, ok := slackTime(m.Edited.TS); ok {
			made.EditedAt = &edited
		}
	}
	channel := wire.ImportChannel{
		SourceID: clean(c.ID, maxSource), Name: clean(c.Name, maxName), Topic: clean(firstOf(c.Topic.Value, c.Purpose.Value), maxTopic),
	}
	thread := wire.ImportThread{SourceID: clean(c.ID+":main", maxSource), Main: true}
	if m.ThreadTS != "" {
		thread = wire.ImportThread{SourceID: clean(c.ID+":"+m.ThreadTS, maxSource), Title: title(text, "Thread of "+at.Format(time.DateOnly))}
	}
	return s.batches.add(ctx, channel, thread, made)
}

// pins reports whether a message is pinned to the channel: older exports say it of the channel alone.
func (c *slackChannel) pins(m *slackMessage) bool {
	if slices.Contains(m.PinnedTo, c.ID) {
		return true
	}
	for _, pin := range c.Pins {
		if pin.ID == m.TS {
			return true
		}
	}
	return false
}

// slackTime reads seconds with six places.
func slackTime(ts string) (time.Time, bool) {
	whole, fraction, _ := strings.Cut(ts, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(fraction) > 9 {
		return time.Time{}, false
	}
	var nanos int64
	if fraction != "" {
		if nanos, err = strconv.ParseInt((fraction + "000000000")[:9], 10, 64); err != nil || nanos < 0 {
			return time.Time{}, false
		}
	}
	return moment(time.Unix(seconds, nanos))
}

func (s *slackRun) author(m *slackMessage) (string, person) {
	if m.User != "" {
		who, known := s.people[m.User]
		if !known {
			who.name = m.User
			if m.Profile != nil {
				who.name = firstOf(m.Profile.DisplayName, m.Profile.RealName, m.Profile.Name, m.User)
			}
		}
		return clean(m.User, maxSource), person{name: who.name, email: address(who.email)}
	}
	name := firstOf(m.Username, m.BotID, "unknown")
	return clean("bot:"+firstOf(m.BotID, m.Username, "unknown"), maxSource), person{name: name}
}

// address is an e-mail address, or nothing.
func address(email string) string {
	const most = 254
	if email = clean(email, most+1); len(email) > most || !strings.Contains(email, "@") {
		return ""
	}
	return email
}

func (s *slackRun) reactions(m *slackMessage) []wire.ImportReaction {
	var all []wire.ImportReaction
	for _, r := range m.Reactions {
		for _, user := range r.Users {
			if strings.TrimSpace(user) == "" || strings.TrimSpace(r.Name) == "" {
				continue
			}
			if len(all) == maxReaction {
				s.left("reactions beyond 200 to one message")
				return all
			}
			who := s.people[user]
			all = append(all, wire.ImportReaction{
				Emoji: emoji(r.Name), AuthorSourceID: clean(user, maxSource), AuthorName: clean(firstOf(who.name, user), maxPerson), AuthorEmail: address(who.email),
			})
		}
	}
	return all
}
