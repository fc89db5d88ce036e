package workspace_test

import (
	"bytes"
	"context"
	"os"
	ossignal "os/signal"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/cli"
	"github.com/cairnsync/cairn/internal/cli/demo/workspace"
	"github.com/cairnsync/cairn/internal/testkit"
)

// TestMain lets this program be what the demonstration starts: cairn.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt)
		code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// environ would break every part if it reached one.
func environ() []string { return append(os.Environ(), "CAIRN_LISTEN=nonsense", "CAIRN_URL=nonsense") }

func TestDemonstration(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"a file of its own": func(*testing.T) string { return "" },
		"PostgreSQL":        func(t *testing.T) string { t.Helper(); return testkit.NewURL(t, testkit.Postgres) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := workspace.Run(t.Context(), workspace.Options{Database: url(t), Out: &out, Environ: environ(), Env: testkit.Env()})
			require.NoError(t, err, out.String())
			requireShown(t, out.String())
		})
	}
}

// requireShown checks the whole story and the table.
func requireShown(t *testing.T, text string) {
	t.Helper()
	for _, pattern := range []string{
		`Ada, who owns the instance, Bruno, Chen, Dara and Emil`,
		`slack into Workshop: 150 messages in \d+ threads added, 0 were there`,
		`slack into Workshop: 0 messages in \d+ threads added, 150 were there`,
		`mattermost into Studio: 56 messages`,
		`write 40 messages into #general; every device shows the same order`,
		`a conflict shows both, and is resolved`,
		`resume, catch up, and Chen's three arrive once and in order`,
		`Dara's phone +is removed from #leads: its content is gone there, \d+ messages of hers are refused`,
		`Emil's desktop +is cut with 4014 \(slow_consumer\), reads again, and catches up`,
		`cannot catch up any more \(resync_required, retention\)`,
		`finalize: a new epoch after event \d+, [78] sign-ins ended`,
		`forget the old timeline \(epoch_changed\)`,
		`(?m)^ +Ada's laptop +\d+ +0 +0 +0 +\d+ +1 +\d+ +0 *$`,
		`(?m)^ +Dara's phone +\d+ +0 +0 +0 +\d+ +2 +\d+ +0 *$`,
		`Audit +\d+ rows, and the chain holds`,
		`✔ Every device holds what the server says`,
	} {
		require.Regexp(t, pattern, text)
	}
	require.NotContains(t, text, "\x1b", "plain lines")
}

func TestDemonstrationNeedsAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.Zero(t, cli.Run(ctx, []string{"user", "add", "somebody", "--database", url}, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}))
	err := workspace.Run(ctx, workspace.Options{Database: url, Out: &bytes.Buffer{}, Environ: environ(), Env: testkit.Env()})
	require.ErrorContains(t, err, "needs an empty one")
}
