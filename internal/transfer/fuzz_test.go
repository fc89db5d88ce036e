package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/transfer"
)

// FuzzSlack reads a day and a list of users of any kind: there are problems or messages, and every batch is
// one that a server takes.
func FuzzSlack(f *testing.F) {
	for _, name := range []string{"2023-01-02.json", "2023-01-03.json"} {
		day, err := os.ReadFile(filepath.Join("testdata", "slack", "general", name))
		require.NoError(f, err)
		users, err := os.ReadFile(filepath.Join("testdata", "slack", "users.json"))
		require.NoError(f, err)
		f.Add(day, users)
	}
	f.Add([]byte(`[{"user":"U1","text":"<@U1|x> <!subteam^S1> <#C9> *a*b* ~~ \u0000","ts":"1e9","thread_ts":"x"}]`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, day, users []byte) {
		folder := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(folder, "c"), 0o700))
		for name, content := range map[string][]byte{"channels.json": []byte(`[{"id":"C","name":"c"}]`), "users.json": users, "c/1.json": day} {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
		}
		_, err := transfer.Run(context.Background(), newServer(t), folder, transfer.Options{Format: transfer.Slack})
		require.NoError(t, err)
	})
}

// FuzzMattermost is FuzzSlack for lines.
func FuzzMattermost(f *testing.F) {
	lines, err := os.ReadFile(filepath.Join("testdata", "mattermost.jsonl"))
	require.NoError(f, err)
	f.Add(lines)
	f.Add([]byte(`{"type":"channel","channel":{"team":"","name":"","type":""}}` + "\n" +
		`{"type":"post","post":{"user":"u","message":"\u0000\ud800","create_at":9223372036854775807,"replies":[{}]}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(t.TempDir(), "export.jsonl")
		require.NoError(t, os.WriteFile(name, content, 0o600))
		if len(content) > 3 && string(content[:2]) == "PK" {
			return // a zip file
		}
		_, err := transfer.Run(context.Background(), newServer(t), name, transfer.Options{Format: transfer.Mattermost})
		require.NoError(t, err)
	})
}
