package search_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/internal/workspace/search"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// load is how messages are shown, as the composition root does it.
func load(tx storage.Tx, by authz.Caller, ids []string) ([]wire.Message, error) {
	found, err := workspace.MessagesByID(tx, ids)
	if err != nil {
		return nil, err
	}
	pointers := make([]*workspace.PlacedMessage, len(found))
	for i := range found {
		pointers[i] = &found[i]
	}
	if err := workspace.Complete(tx, by.Principal, pointers...); err != nil {
		return nil, err
	}
	messages := make([]wire.Message, len(found))
	for i := range found {
		messages[i] = found[i].Message
	}
	return messages, nil
}

// finder is a team with its search.
type finder struct {
	*team.Team
	*search.Service

	indexer *search.Indexer
}

func each(t *testing.T, body func(w *finder)) {
	t.Helper()
	team.Each(t, func(w *team.Team) { body(newFinder(w)) })
}

func newFinder(w *team.Team) *finder {
	return &finder{
		Team: w, Service: search.New(search.Options{DB: w.DB, Load: load}),
		indexer: search.NewIndexer(search.IndexerOptions{DB: w.DB, Bus: signal.NewLocal(), Logger: slog.New(slog.DiscardHandler)}),
	}
}

// run is Team.Run with the search.
func (w *finder) run(name string, body func(w *finder)) {
	w.Helper()
	w.Run(name, func(on *team.Team) {
		copied := *w
		copied.Team = on
		body(&copied)
	})
}

func (w *finder) follow() {
	w.Helper()
	require.NoError(w, w.indexer.Follow(w.Context()))
}

// find answers the texts that are found, after the index has caught up.
func (w *finder) find(by authz.Caller, query string) []string {
	w.Helper()
	w.follow()
	page, err := w.Search(w.Context(), by, query, place.Paging{Limit: 100})
	require.NoError(w, err)
	texts := []string{}
	for _, m := range page.Items {
		texts = append(texts, m.ContentMD)
	}
	return texts
}

func reversed(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Reverse(texts)
	return texts
}

func (w *finder) edit(by authz.Caller, m wire.Message, text string) {
	w.Helper()
	_, err := w.Domain.EditMessage(w.Context(), by, m.ID, team.Version(m.Version), wire.EditMessage{ContentMD: text})
	require.NoError(w, err)
}

// start runs the indexer of another node.
func (w *finder) start() (stop func()) {
	w.Helper()
	x := search.NewIndexer(search.IndexerOptions{DB: w.DB, Bus: signal.NewLocal(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(w, x.Start(w.Context()))
	return func() { require.NoError(w, x.Stop(context.Background())) }
}
