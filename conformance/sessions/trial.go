package sessions

import (
	"context"

	"github.com/google/uuid"

	"github.com/cairnsync/cairn/conformance/rulebook"
)

// trial is one case while it runs, on its suite.
type trial struct {
	*rulebook.Trial

	suite *suite
}

func newTrial(ctx context.Context, s *suite) *trial { return &trial{rulebook.NewTrial(ctx), s} }

func newID() string { return uuid.NewString() }
