package cli

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// asking is an agent that asks what a test lets it ask.
type asking struct {
	t        *testing.T
	executor *client.Executor
}

func newAsking(t *testing.T, alice *shell, url, session string, recipients ...string) *asking {
	t.Helper()
	options := client.ExecutorOptions{OnControl: func(context.Context, wire.Control) error { return nil }}
	if len(recipients) > 0 {
		options.Recipients = func(context.Context) ([]string, error) { return recipients, nil }
	}
	executor, err := alice.device(t, url, "the agent").Execute(t.Context(), session, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = executor.Stop(context.WithoutCancel(t.Context())) })
	return &asking{t, executor}
}

func (a *asking) says(payloads ...trace.Payload) {
	a.t.Helper()
	for _, payload := range payloads {
		require.NoError(a.t, a.executor.Emit(a.t.Context(), trace.Must("t1", payload)))
	}
	require.NoError(a.t, a.executor.Flush(a.t.Context()))
}

func ask(id, title string) trace.Ask {
	return trace.Ask{AskID: id, AskKind: trace.AskPermission, Title: title, Options: []trace.Option{{ID: "allow", Label: "Allow", Kind: trace.AllowOnce}}}
}

type askList struct {
	Asks []struct {
		Seq   int64
		AskID string `json:"ask_id"`
		Title string
	}
	Complete bool
}

func TestAsksAreAnsweredByTheOneThatIsOpen(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		server := s.serve(t)
		alice := s.as("alice")
		alice.done("session", "create", "--key", "work")
		require.Equal(t, "none\n", alice.call("session", "asks", "work").errs)
		agent := newAsking(t, alice, server.url, "work")
		agent.says(ask("old", "Of an earlier turn"), trace.TurnStart{Text: "go"}, ask("a1", "Run the tests"), ask("a2", "Push it"))

		list := decoded[askList](alice, "session", "asks", "work")
		require.True(t, list.Complete)
		require.Len(t, list.Asks, 2)
		require.Equal(t, "a1", list.Asks[0].AskID)
		require.EqualValues(t, 3, list.Asks[0].Seq)
		require.Regexp(t, `a2 +4 +Push it +allow`, alice.done("session", "asks", "work"))
		alice.refused(exitFailed, []string{"2 asks are open", "a1  Run the tests", "a2  Push it"}, "session", "approve", "work")
		alice.refused(exitFailed, []string{"ask a3 is not open", "a1  Run the tests"}, "session", "approve", "work", "a3")
		alice.refused(exitFailed, []string{"ask a3 is not open"}, "session", "answer", "work", "a3", "x")
		require.Equal(t, "approve is event 5\n", alice.done("session", "approve", "work", "a2"))

		agent.says(trace.AskResolved{AskID: "a2", Outcome: trace.AskSelected, OptionID: "allow"})
		alice.refused(exitFailed, []string{"ask a2 is settled already", "a1  Run the tests"}, "session", "approve", "work", "a2")
		require.Equal(t, "deny of a1, \"Run the tests\", is event 7\n", alice.done("session", "deny", "work"))
		require.Equal(t, "a1", *decoded[controlAnswer](alice, "session", "approve", "work").AskID)
		agent.says(trace.AskResolved{AskID: "a1", Outcome: trace.AskCancelled})
		alice.refused(exitFailed, []string{"no ask is open"}, "session", "approve", "work")
		require.Contains(t, alice.done("session", "approve", "work", "a1", "--id", "again"), "approve is event", "it may repeat one that was sent")
		alice.refused(exitFailed, []string{"not found"}, "session", "approve", "nowhere", "a1")
	})
}

// Behind more events than one page holds.
func TestAsksAreFoundFarBack(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	agent := newAsking(t, alice, server.url, "work")
	agent.says(trace.TurnStart{Text: "go"}, ask("a1", "Run the tests"))
	for i := range 2*askPage + 7 {
		require.NoError(t, agent.executor.Emit(t.Context(), trace.Must("t1", trace.Assistant{Text: fmt.Sprint(i)})))
	}
	require.NoError(t, agent.executor.Flush(t.Context()))
	require.Contains(t, alice.done("session", "approve", "work"), "approve of a1,")
}

// Who cannot read what is asked is believed about what they answer.
func TestAsksThatAreSealed(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work", "--e2e")
	secret, err := (&app{env: env.Real(), environ: alice.environ}).identity()
	require.NoError(t, err)
	recipient, err := client.RecipientOf(secret)
	require.NoError(t, err)
	newAsking(t, alice, server.url, "work", recipient).says(trace.TurnStart{Text: "go"}, ask("a1", "Run the tests"))
	elsewhere := newShell(t, alice.environ...)
	elsewhere.environ = append(elsewhere.environ, "XDG_CONFIG_HOME="+t.TempDir())
	elsewhere.refused(exitFailed, []string{"it cannot be known here", "cairn session asks work"}, "session", "approve", "work")
	require.Contains(t, elsewhere.call("session", "asks", "work").errs, "may not be all")
	require.Equal(t, "approve is event 3\n", elsewhere.done("session", "approve", "work", "a9"))
	require.Equal(t, "a1", decoded[askList](alice, "session", "asks", "work").Asks[0].AskID)
	alice.refused(exitFailed, []string{"ask a9 is not open"}, "session", "approve", "work", "a9")
}
