package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/transfer"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// naming is a server that keeps the name of the import, and whose channel C1 was archived.
type naming struct {
	*server

	source string
}

func (n *naming) StartImport(ctx context.Context, in wire.NewImport) (wire.Import, error) {
	n.source = in.Source
	return n.server.StartImport(ctx, in)
}

func (n *naming) ImportBatch(ctx context.Context, id string, b wire.ImportBatch) (wire.ImportReceipt, error) {
	if b.Channel.SourceID == "C1" {
		return wire.ImportReceipt{}, &client.Problem{Problem: wire.Problem{
			Status: 409, Code: string(code.Conflict), Detail: "The channel was archived.",
		}}
	}
	return n.server.ImportBatch(ctx, id, b)
}

// exported writes a small export of Slack into a folder with a name.
func exported(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	for file, text := range map[string]string{
		"users.json":          `[{"id":"U0","name":"guest","team_id":"T9"},{"id":"U1","name":"ada","team_id":"T1"},{"id":"U2","name":"bob","team_id":"T1"}]`,
		"channels.json":       `[{"id":"C1","name":"old"},{"id":"C2","name":"new","pins":[{"id":"1672650002.000000"}]}]`,
		"old/2023-01-02.json": `[{"user":"U1","text":"one","ts":"1672650001.000000"},{"user":"U1","text":"two","ts":"1672650002.000000"}]`,
		"new/2023-01-02.json": `[{"user":"U1","text":"one","ts":"1672650001.000000"},{"user":"U1","text":"two","ts":"1672650002.000000"}]`,
	} {
		path := filepath.Join(folder, filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return folder
}

func TestANewerExportOfTheSameChat(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"export Jan 1 2023", "export Feb 1 2023"} {
		n := &naming{server: newServer(t)}
		report, err := transfer.Run(t.Context(), n, exported(t, name), transfer.Options{Format: transfer.Slack})
		require.NoError(t, err)
		require.Equal(t, "slack:T1", n.source, "not the name of the file, and not a guest's team")
		require.Equal(t, map[string]int64{"messages of the archived channel old": 2}, report.Left)
		require.EqualValues(t, 2, report.Added)
		require.False(t, n.threads["new/main"][0].Pinned)
		require.True(t, n.threads["new/main"][1].Pinned, "the channel says which are pinned")
	}
	n := &naming{server: newServer(t)}
	_, err := transfer.Run(t.Context(), n, filepath.Join("testdata", "mattermost.jsonl"), transfer.Options{Format: transfer.Mattermost})
	require.NoError(t, err)
	require.Equal(t, "mattermost:acme", n.source)
}
