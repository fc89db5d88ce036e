package workspace_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/contract"
	apiworkspace "github.com/cairnsync/cairn/internal/api/workspace"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

var update = flag.Bool("update", false, "write docs/openapi-workspace.yaml and docs/asyncapi.yaml anew")

func TestDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	for name, document := range map[string][]byte{"openapi-workspace.yaml": apiworkspace.OpenAPI(), "asyncapi.yaml": apiworkspace.AsyncAPI()} {
		path := filepath.Join("..", "..", "..", "docs", name)
		if *update {
			require.NoError(t, os.WriteFile(path, document, 0o644)) // a document of the repository
		}
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(document), string(written), "run `make docs`")
	}
}

func TestDocumentsAreValid(t *testing.T) {
	t.Parallel()
	_, err := contract.NewAnswers(apiworkspace.OpenAPI())
	require.NoError(t, err)
	known := servertest.Frames(t)
	require.Len(t, known.Names(contract.FromClient), 7)
	require.Contains(t, string(apiworkspace.AsyncAPI()), "x-protocol-versions:\n    - 1\n", "ES-6.1")
	require.NotContains(t, string(apiworkspace.OpenAPI()), `"null"`, "there is no null on this surface")
}

func TestEveryRouteHasAnAction(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, route := range apiworkspace.Routes() {
		t.Run("WS-AZ-4 "+route.Pattern(), func(t *testing.T) {
			require.False(t, seen[route.Pattern()])
			seen[route.Pattern()] = true
			require.NotEmpty(t, route.Summary)
			require.NotEmpty(t, route.Tag)
			if route.Access == apiworkspace.Public && route.Action == "" {
				require.Contains(t, []string{"meta", "identity"}, route.Tag, "what has no action is for everybody")
				return
			}
			_, known := authz.RuleOf(route.Action)
			require.True(t, known, "%q has no row in the action table", route.Action)
		})
	}
}

// What a later release brings is absent, not pretended.
func TestWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	for _, route := range apiworkspace.Routes() {
		for _, later := range []string{"/runs", "/commands", "/webhooks", "/push-subscriptions", "/hosts", "/terminal-sessions", "/stats", "/interactions", "/me/heartbeat"} {
			require.NotContains(t, route.Path, later)
		}
	}
}

func TestFramesOfTheCatalogue(t *testing.T) {
	t.Parallel()
	known := servertest.Frames(t)
	names := known.Names(contract.FromServer)
	for _, event := range eventlog.Catalogue() {
		if event.Payload != nil {
			require.Contains(t, names, "dispatch."+event.Name)
		} else {
			require.NotContains(t, names, "dispatch."+event.Name, "nothing sends it yet")
		}
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	known := servertest.Frames(t)
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	envelope := func(change func(map[string]any)) []byte {
		d := map[string]any{
			"id": id, "seq": 7, "type": "pin.added", "schema_version": 1, "occurred_at": time.Unix(0, 0).UTC(), "permission_version": 1,
			"scope": map[string]any{"thread_id": id}, "resource": map[string]any{"kind": "message", "id": id},
			"payload": wire.PinEvent{MessageID: id, ThreadID: id, Pinned: true},
		}
		change(d)
		frame, err := json.Marshal(map[string]any{"op": "dispatch", "d": d})
		require.NoError(t, err)
		return frame
	}
	require.NoError(t, known.Check(contract.FromServer, envelope(func(map[string]any) {})))
	require.NoError(t, known.Check(contract.FromServer, []byte(`{"op":"cursor","d":{"seq":4}}`)))
	require.NoError(t, known.Check(contract.FromClient, []byte(`{"op":"heartbeat","d":{"last_seq":4}}`)))
	for name, wrong := range map[string][]byte{
		"ES-2.2 a null":                        envelope(func(d map[string]any) { d["client_msg_id"] = nil }),
		"ES-2.2 a durable event without seq":   envelope(func(d map[string]any) { delete(d, "seq") }),
		"ES-2.2 another payload":               envelope(func(d map[string]any) { d["payload"] = map[string]any{"pinned": 1} }),
		"ES-2.2 a member nobody knows":         envelope(func(d map[string]any) { d["extra"] = true }),
		"ES-9.3 a version that is not its own": envelope(func(d map[string]any) { d["resource"] = map[string]any{"kind": "message", "id": id, "version": 3} }),
		"a type nobody knows":                  envelope(func(d map[string]any) { d["type"] = "pin.moved" }),
		"an op nobody knows":                   []byte(`{"op":"cursors","d":{"seq":4}}`),
		"an op of the other side":              []byte(`{"op":"heartbeat","d":{"last_seq":4}}`),
	} {
		require.Error(t, known.Check(contract.FromServer, wrong), name)
	}
	require.Error(t, known.Check(contract.FromServer, []byte(strings.Repeat("[", 3))))
}
