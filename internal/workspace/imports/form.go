package imports

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The bounds of a batch.
const (
	// MaxMessages is how many messages one batch has at most.
	MaxMessages = 500
	// MaxReactions is how many reactions one message has at most.
	MaxReactions = 200

	maxSource = 200
	maxName   = 100
	maxTitle  = 200
	maxTopic  = 1000
	maxPerson = 200
	maxEmail  = 254
)

// Messages are from the time of computers: other times are an export read wrongly.
var (
	earliest = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// sourceID refuses what names nothing in a source.
func sourceID(pointer, id string) error {
	if strings.TrimSpace(id) == "" {
		return fault.Invalid(pointer, "must not be empty")
	}
	return place.Text(pointer, id, maxSource)
}

// check looks at the form of a batch.
func (s *Service) check(b *wire.ImportBatch) error {
	if err := checkPlace(b); err != nil {
		return err
	}
	if len(b.Messages) == 0 || len(b.Messages) > MaxMessages {
		return fault.Invalid("/messages", "must have 1 to %d items", MaxMessages)
	}
	seen := make(map[string]bool, len(b.Messages))
	for i := range b.Messages {
		at := fmt.Sprintf("/messages/%d", i)
		if err := s.checkMessage(at, &b.Messages[i]); err != nil {
			return err
		}
		if seen[b.Messages[i].SourceID] {
			return fault.Invalid(at+"/source_id", "stands twice in the batch")
		}
		seen[b.Messages[i].SourceID] = true
	}
	return nil
}

func checkPlace(b *wire.ImportBatch) error {
	if b.Channel.Kind == "" {
		b.Channel.Kind = wire.ChannelText
	}
	switch {
	case b.Channel.Kind != wire.ChannelText && b.Channel.Kind != wire.ChannelForum:
		return fault.Invalid("/channel/kind", "must be text or forum")
	case b.Thread.Main && b.Channel.Kind == wire.ChannelForum:
		return fault.Invalid("/thread/main", "a forum has no main timeline")
	case strings.TrimSpace(b.Channel.Name) == "":
		return fault.Invalid("/channel/name", "must not be empty")
	case !b.Thread.Main && strings.TrimSpace(b.Thread.Title) == "":
		return fault.Invalid("/thread/title", "must not be empty")
	}
	return first(
		sourceID("/channel/source_id", b.Channel.SourceID), sourceID("/thread/source_id", b.Thread.SourceID),
		place.Text("/channel/name", b.Channel.Name, maxName), place.Text("/channel/topic", b.Channel.Topic, maxTopic),
		place.Text("/thread/title", b.Thread.Title, maxTitle))
}

func (s *Service) checkMessage(at string, m *wire.ImportMessage) error {
	if m.CreatedAt.Before(earliest) || m.CreatedAt.After(latest) {
		return fault.Invalid(at+"/created_at", "must be a time from 1970 to 2200")
	}
	if m.EditedAt != nil && (m.EditedAt.Before(earliest) || m.EditedAt.After(latest)) {
		return fault.Invalid(at+"/edited_at", "must be a time from 1970 to 2200")
	}
	if len(m.Reactions) > MaxReactions {
		return fault.Invalid(at+"/reactions", "must have at most %d items", MaxReactions)
	}
	for i, r := range m.Reactions {
		on := fmt.Sprintf("%s/reactions/%d", at, i)
		err := first(place.Emoji(on+"/emoji", r.Emoji), sourceID(on+"/author_source_id", r.AuthorSourceID),
			place.Text(on+"/author_name", r.AuthorName, maxPerson), place.Text(on+"/author_email", r.AuthorEmail, maxEmail))
		if err != nil {
			return err
		}
	}
	return first(
		sourceID(at+"/source_id", m.SourceID), sourceID(at+"/author_source_id", m.AuthorSourceID),
		place.Text(at+"/author_name", m.AuthorName, maxPerson), place.Text(at+"/author_email", m.AuthorEmail, maxEmail),
		place.Text(at+"/content_md", m.ContentMD, s.MaxChars), place.Text(at+"/reply_to_source_id", m.ReplyToSourceID, maxSource))
}

// first answers the first error there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
