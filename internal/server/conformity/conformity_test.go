package conformity_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	conformance "github.com/cairnsync/cairn/conformance/sessions"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
)

// Our own server passes the suite that we offer to others, with our extensions. The report, a line for
// every rule, is in the test's output.
func TestConformance(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		node := servertest.Start(t, db, nil)
		report := conformance.Run(t, conformance.Target{
			URL: node.URL, Ours: true,
			Keys: conformance.Keys{
				Owner: node.Account(t, "owner").Key, Editor: node.Account(t, "editor").Key,
				Viewer: node.Account(t, "viewer").Key, Stranger: node.Account(t, "stranger").Key,
			},
		})
		_, err := fmt.Fprintf(t.Output(), "%s\n%s", db.Engine, report)
		require.NoError(t, err)
	})
}
