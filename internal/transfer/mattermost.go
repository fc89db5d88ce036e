package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The shapes of a Mattermost bulk export, as far as they are read.
type (
	mattermostLine struct {
		Type    string             `json:"type"`
		Channel *mattermostChannel `json:"channel"`
		User    *mattermostUser    `json:"user"`
		Post    *mattermostPost    `json:"post"`
	}
	mattermostChannel struct {
		Team        string `json:"team"`
		Name        string `json:"name"`
		DisplayName string `json:"display_name"`
		Type        string `json:"type"`
		Header      string `json:"header"`
		Purpose     string `json:"purpose"`
	}
	mattermostUser struct {
		Username  string `json:"username"`
		Email     string `json:"email"`
		Nickname  string `json:"nickname"`
		FirstName string `json:"first_name"`
		LastName  string `json:"last_name"`
	}
	mattermostPost struct {
		mattermostReply

		Team    string            `json:"team"`
		Channel string            `json:"channel"`
		Pinned  bool              `json:"is_pinned"`
		Replies []mattermostReply `json:"replies"`
	}
	mattermostReply struct {
		User      string `json:"user"`
		Type      string `json:"type"`
		Message   string `json:"message"`
		CreateAt  int64  `json:"create_at"`
		EditAt    int64  `json:"edit_at"`
		Reactions []struct {
			User      string `json:"user"`
			EmojiName string `json:"emoji_name"`
		} `json:"reactions"`
		Attachments []struct {
			Path string `json:"path"`
		} `json:"attachments"`
	}
)

// mattermostRun reads one export of Mattermost.
type mattermostRun struct {
	*run

	name     string
	people   map[string]person
	channels map[string]*mattermostChannel // by team and name
	teams    map[string]bool
}

func (r *run) readMattermost(ctx context.Context) error {
	name, err := r.source.jsonl()
	if err != nil {
		return err
	}
	file, err := r.source.files.Open(name)
	if err != nil {
		return fmt.Errorf("read export: %w", err)
	}
	defer func() { _ = file.Close() }()
	m := &mattermostRun{run: r, name: name, people: map[string]person{}, channels: map[string]*mattermostChannel{}, teams: map[string]bool{}}
	bad := func(n int64, err error) { m.problemf(name, n, "%v", err) }
	var stopped error
	err = lines(counted{file, &r.report.Read}, func(n int64, text []byte) error {
		stopped = m.line(ctx, n, text)
		return stopped
	}, bad)
	if stopped != nil {
		return stopped
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read export: %w", err)
	}
	return nil
}

// jsonl answers the name of the file with the lines.
func (s *source) jsonl() (string, error) {
	if s.single != "" {
		return s.single, nil
	}
	entries, err := fs.ReadDir(s.files, ".")
	if err != nil {
		return "", fmt.Errorf("read export: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() && path.Ext(entry.Name()) == ".jsonl" {
			return entry.Name(), nil
		}
	}
	return "", errors.New("read export: it has no .jsonl file")
}

// checkpoint is after how many lines what waits is handed over, so that the position can move.
const checkpoint = 5000

func (m *mattermostRun) line(ctx context.Context, n int64, text []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("read export: %w", err)
	}
	var line mattermostLine
	if err := json.Unmarshal(text, &line, lenient...); err != nil {
		m.problemf(m.name, n, "%v", err)
		return nil
	}
	if err := m.take(ctx, n, &line); err != nil {
		return err
	}
	if m.Position == "" || n%checkpoint != 0 || n <= m.position.Line {
		return nil
	}
	if err := m.batches.flush(ctx); err != nil {
		return err
	}
	return m.position.move("", n)
}

func (m *mattermostRun) take(ctx context.Context, n int64, line *mattermostLine) error {
	switch {
	case line.Type == "channel" && line.Channel != nil:
		m.teams[line.Channel.Team] = true
		m.channels[line.Channel.Team+"/"+line.Channel.Name] = line.Channel
	case line.Type == "user" && line.User != nil:
		u := line.User
		full := strings.TrimSpace(u.FirstName + " " + u.LastName)
		m.people[u.Username] = person{name: firstOf(u.Nickname, full, u.Username), email: address(u.Email)}
	case line.Type == "post" && line.Post != nil:
		if n > m.position.Line {
			return m.post(ctx, n, line.Post)
		}
	case line.Type == "direct_post" || line.Type == "direct_channel":
		m.left("direct messages")
	case line.Type == "version" || line.Type == "team" || line.Type == "role" || line.Type == "scheme" || line.Type == "emoji" || line.Type == "bot":
	default:
		m.problemf(m.name, n, "a line of type %q is not known", clean(line.Type, maxName))
	}
	return nil
}

// post hands over a post: alone into the main timeline, with replies as a thread.
func (m *mattermostRun) post(ctx context.Context, n int64, p *mattermostPost) error {
	place := p.Team + "/" + p.Channel
	c := m.channels[place]
	switch {
	case c == nil:
		m.problemf(m.name, n, "the channel %q is not in the export", clean(place, maxName))
		return nil
	case c.Type == "P" && !m.Private:
		m.left("posts of private channels")
		return nil
	}
	channel := wire.ImportChannel{
		SourceID: shortID(place), Name: clean(m.channelName(c), maxName), Topic: clean(firstOf(c.Header, c.Purpose), maxTopic),
	}
	first, fine := m.message(n, place, &p.mattermostReply, p.Pinned)
	if !fine {
		return nil
	}
	if len(p.Replies) == 0 {
		return m.batches.add(ctx, channel, wire.ImportThread{SourceID: shortID(place + "/main"), Main: true}, first)
	}
	thread := wire.ImportThread{SourceID: first.SourceID, Title: title(first.ContentMD, "Thread of "+first.CreatedAt.Format(time.DateOnly))}
	if err := m.batches.add(ctx, channel, thread, first); err != nil {
		return err
	}
	for i := range p.Replies {
		if reply, fine := m.message(n, place+"/"+first.SourceID, &p.Replies[i], false); fine {
			if err := m.batches.add(ctx, channel, thread, reply); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mattermostRun) channelName(c *mattermostChannel) string {
	name := firstOf(c.DisplayName, c.Name)
	if len(m.teams) > 1 {
		return c.Team + "/" + name
	}
	return name
}

// shortID is an id of the export, or for a long one what stands for it.
func shortID(id string) string {
	if len(id) <= maxSource && id == clean(id, maxSource) {
		return id
	}
	return digest(id)
}

func digest(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:20])
}

// message makes a message of a post or reply. Posts of a bulk export have no ids: what they are, when and by
// whom is the id.
func (m *mattermostRun) message(n int64, place string, r *mattermostReply, pinned bool) (wire.ImportMessage, bool) {
	at, fine := moment(time.UnixMilli(r.CreateAt))
	if !fine || r.CreateAt <= 0 {
		m.problemf(m.name, n, "the time %d cannot be read", r.CreateAt)
		return wire.ImportMessage{}, false
	}
	if strings.TrimSpace(r.User) == "" {
		m.problemf(m.name, n, "a post has no author")
		return wire.ImportMessage{}, false
	}
	if strings.HasPrefix(r.Type, "system_") {
		m.left("news of channels")
		return wire.ImportMessage{}, false
	}
	text := r.Message
	for _, file := range r.Attachments {
		text += "\n[file: " + clean(path.Base(strings.ReplaceAll(file.Path, `\`, "/")), maxName) + "]"
	}
	if text = content(text); text == "" {
		m.left("messages without text")
		return wire.ImportMessage{}, false
	}
	who := m.people[r.User]
	made := wire.ImportMessage{
		SourceID: digest(place, r.User, fmt.Sprint(r.CreateAt), r.Message), AuthorSourceID: shortID(r.User),
		AuthorName: clean(firstOf(who.name, r.User), maxPerson), AuthorEmail: who.email, ContentMD: text, CreatedAt: at, Pinned: pinned,
	}
	if edited, ok := moment(time.UnixMilli(r.EditAt)); ok && r.EditAt > 0 {
		made.EditedAt = &edited
	}
	for _, reaction := range r.Reactions {
		if strings.TrimSpace(reaction.User) == "" || strings.TrimSpace(reaction.EmojiName) == "" {
			continue
		}
		if len(made.Reactions) == maxReaction {
			m.left("reactions beyond 200 to one message")
			break
		}
		by := m.people[reaction.User]
		made.Reactions = append(made.Reactions, wire.ImportReaction{
			Emoji: emoji(reaction.EmojiName), AuthorSourceID: shortID(reaction.User), AuthorName: clean(firstOf(by.name, reaction.User), maxPerson),
			AuthorEmail: by.email,
		})
	}
	return made, true
}
