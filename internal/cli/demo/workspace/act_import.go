package workspace

import (
	"archive/zip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	client "github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// exports are what two other chats would export: small, and of our own making.
//
//go:embed exports
var exports embed.FS

// importAnswer is what `cairn ws import --json` says, as far as it is told.
type importAnswer struct {
	Threads int64 `json:"threads"`
	Added   int64 `json:"messages_added"`
	Known   int64 `json:"messages_known"`
}

// importExports fills channels from the exports, by the command line as a user would, and once more: nothing is added.
func importExports(ctx context.Context, s *stage) error {
	slack, mattermost, err := s.unpack()
	if err != nil {
		return err
	}
	made, err := s.laptop.account.Client().MakeLoginCode(ctx)
	if err != nil {
		return fmt.Errorf("make login code: %w", err)
	}
	var signedIn struct{}
	if err := s.run(ctx, made.Code+"\n", &signedIn, "auth", "login"); err != nil {
		return err
	}
	for _, one := range []struct{ format, file, space string }{
		{"slack", slack, "Workshop"}, {"mattermost", mattermost, "Studio"}, {"slack", slack, "Workshop"},
	} {
		var answer importAnswer
		if err := s.run(ctx, "", &answer, "ws", "import", one.file, "--format", one.format, "--space", one.space); err != nil {
			return err
		}
		err := s.say("cairn ws import", "%s into %s: %d messages in %d threads added, %d were there",
			one.format, one.space, answer.Added, answer.Threads, answer.Known)
		if err != nil {
			return err
		}
	}
	return s.share(ctx)
}

// share lets everybody into the imported channels of the Workshop; those of the Studio are granted by its space.
func (s *stage) share(ctx context.Context) error {
	channels, err := client.All(ctx, 0, func(ctx context.Context, at client.Paging) (wire.Page[wire.Channel], error) {
		return s.laptop.account.Client().Channels(ctx, s.workshop.ID, at)
	})
	if err != nil {
		return fmt.Errorf("list channels: %w", err)
	}
	for _, channel := range channels {
		switch channel.Name {
		case "general":
			s.general = channel
		case "engineering":
		default:
			continue
		}
		if err := s.grant(ctx, wire.SubjectGroup, s.everyone.ID, on(channel)); err != nil {
			return err
		}
	}
	if s.general.MainThreadID == "" {
		return errors.New("the import made no channel #general")
	}
	return nil
}

// unpack writes the exports to files, as they come from other chats: an archive, and lines of JSON.
func (s *stage) unpack() (slack, mattermost string, err error) {
	slack, mattermost = filepath.Join(s.folder, "slack.zip"), filepath.Join(s.folder, "mattermost.jsonl")
	lines, err := exports.ReadFile("exports/mattermost.jsonl")
	if err != nil {
		return "", "", fmt.Errorf("read export: %w", err)
	}
	if err := os.WriteFile(mattermost, lines, 0o600); err != nil {
		return "", "", fmt.Errorf("write export: %w", err)
	}
	file, err := os.Create(slack)
	if err != nil {
		return "", "", fmt.Errorf("write export: %w", err)
	}
	archive := zip.NewWriter(file)
	err = fs.WalkDir(exports, "exports/slack", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := exports.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		into, err := archive.Create(strings.TrimPrefix(path, "exports/slack/"))
		if err != nil {
			return fmt.Errorf("add %s: %w", path, err)
		}
		_, err = into.Write(content)
		return err //nolint:wrapcheck // zip says which file
	})
	if err = errors.Join(err, archive.Close(), file.Close()); err != nil {
		return "", "", fmt.Errorf("write export: %w", err)
	}
	return slack, mattermost, nil
}
