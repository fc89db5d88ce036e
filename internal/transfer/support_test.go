package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/transfer"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// server is a target that keeps what it gets and refuses what a server refuses.
type server struct {
	tb      testing.TB
	threads map[string][]wire.ImportMessage // by channel name and thread title, "main" for the main timeline
	known   map[string]bool
	titles  map[string]string // by source id
	started bool
	done    bool
	// failAfter makes it fail after so many batches; 0 never.
	failAfter int
	batches   int
	waiting   int // the largest batch, in bytes of content
}

var errAway = errors.New("the server is away")

func newServer(tb testing.TB) *server {
	tb.Helper()
	return &server{tb: tb, threads: map[string][]wire.ImportMessage{}, known: map[string]bool{}, titles: map[string]string{}}
}

func (s *server) StartImport(_ context.Context, in wire.NewImport) (wire.Import, error) {
	s.started = true
	return wire.Import{ID: "import", SpaceID: in.SpaceID, Source: in.Source, State: "running"}, nil
}

func (s *server) FinishImport(context.Context, string) (wire.Import, error) {
	s.done = true
	return wire.Import{ID: "import", State: "done"}, nil
}

func (s *server) ImportBatch(_ context.Context, id string, b wire.ImportBatch) (wire.ImportReceipt, error) {
	s.batches++
	if s.failAfter > 0 && s.batches > s.failAfter {
		return wire.ImportReceipt{}, errAway
	}
	if err := valid(&b); err != nil {
		s.tb.Errorf("a server refuses this batch: %v", err)
	}
	thread := b.Channel.SourceID + "/" + b.Thread.SourceID
	if _, known := s.titles[thread]; !known {
		s.titles[thread] = b.Channel.Name + "/" + b.Thread.Title
		if b.Thread.Main {
			s.titles[thread] = b.Channel.Name + "/main"
		}
	}
	receipt := wire.ImportReceipt{Import: wire.Import{ID: id}}
	size := 0
	for _, m := range b.Messages {
		size += len(m.ContentMD)
		if s.known[m.SourceID] {
			receipt.Known++
			continue
		}
		s.known[m.SourceID] = true
		receipt.Added++
		s.threads[s.titles[thread]] = append(s.threads[s.titles[thread]], m)
	}
	s.waiting = max(s.waiting, size)
	return receipt, nil
}

// valid is what a server demands of a batch.
func valid(b *wire.ImportBatch) error {
	texts := map[string]int{b.Channel.SourceID: 200, b.Channel.Name: 100, b.Channel.Topic: 1000, b.Thread.SourceID: 200, b.Thread.Title: 200}
	if b.Channel.SourceID == "" || b.Channel.Name == "" || b.Thread.SourceID == "" || !b.Thread.Main && strings.TrimSpace(b.Thread.Title) == "" {
		return errors.New("something has no name")
	}
	seen := map[string]bool{}
	for _, m := range b.Messages {
		if m.SourceID == "" || seen[m.SourceID] || strings.TrimSpace(m.AuthorSourceID) == "" || strings.TrimSpace(m.ContentMD) == "" {
			return fmt.Errorf("message %q", m.SourceID)
		}
		seen[m.SourceID] = true
		if m.CreatedAt.Year() < 1970 || m.CreatedAt.Year() >= 2200 {
			return fmt.Errorf("time %v", m.CreatedAt)
		}
		if len(b.Messages) > 500 || len(m.Reactions) > 200 {
			return errors.New("too many")
		}
		texts[m.SourceID], texts[m.AuthorSourceID], texts[m.AuthorName], texts[m.AuthorEmail] = 200, 200, 200, 254
		texts[m.ContentMD] = transfer.DefaultMaxChars
		for _, r := range m.Reactions {
			if r.Emoji == "" || len(r.Emoji) > 64 || strings.ContainsFunc(r.Emoji, unicode.IsSpace) || strings.TrimSpace(r.AuthorSourceID) == "" {
				return errors.New("a reaction of nothing or nobody")
			}
			texts[r.Emoji], texts[r.AuthorSourceID], texts[r.AuthorName] = 64, 200, 200
		}
	}
	for text, most := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || utf8.RuneCountInString(text) > most {
			return fmt.Errorf("text %.40q", text)
		}
	}
	return nil
}

// texts are the contents of a thread.
func (s *server) texts(thread string) []string {
	var texts []string
	for _, m := range s.threads[thread] {
		texts = append(texts, m.ContentMD)
	}
	return texts
}

// run brings an export to a server and answers the report with the problems.
func run(tb testing.TB, s *server, file string, o transfer.Options) (transfer.Report, []string) {
	tb.Helper()
	var problems []string
	o.Problem = func(p transfer.Problem) { problems = append(problems, p.String()) }
	report, err := transfer.Run(tb.Context(), s, file, o)
	require.NoError(tb, err)
	require.True(tb, s.done)
	return report, problems
}
