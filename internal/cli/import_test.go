package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/agent/transcript"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	claudePrompt = `{"type":"user","uuid":"u-1","sessionId":"one","timestamp":"2026-01-02T03:04:05.006Z","message":{"role":"user","content":"say \u001b[31mhello"}}`
	claudeAnswer = `{"type":"assistant","uuid":"a-1","sessionId":"one","timestamp":"2026-01-02T03:04:06Z","message":{"id":"m","model":"model-a","content":[{"type":"text","text":"Hello."}],"usage":{"input_tokens":3,"output_tokens":4}}}`
	claudeHook   = `{"type":"progress","uuid":"p-1","sessionId":"one","timestamp":"2026-01-02T03:04:07Z","data":{"type":"hook_progress"}}`
	codexMeta    = `{"timestamp":"2026-01-02T03:04:05Z","type":"session_meta","payload":{"id":"two"}}`
	codexPrompt  = `{"timestamp":"2026-01-02T03:04:06Z","type":"event_msg","payload":{"type":"user_message","message":"list files"}}`
)

// transcriptFiles writes files of lines, and answers their folder.
func transcriptFiles(t *testing.T, files map[string][]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, lines := range files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	return folder
}

func TestImport(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		admin := newShell(t, "CAIRN_DATABASE="+db.URL)
		admin.serve(t)
		s := admin.as("ada")
		folder := transcriptFiles(t, map[string][]string{
			"a/claude.jsonl":  {claudePrompt, "{broken", claudeAnswer, claudeHook},
			"b/rollout.jsonl": {codexMeta, codexPrompt},
			"b/other.jsonl":   {`{"level":"info"}`},
			"b/notes.txt":     {claudePrompt},
		})
		got := s.call("import", folder)
		require.Equal(t, exitDone, got.code, got.errs)
		require.Contains(t, got.errs, filepath.Join(folder, "a/claude.jsonl")+":2: it is no JSON: invalid character 'b'")
		require.Contains(t, got.errs, filepath.Join(folder, "b/other.jsonl")+": it is no transcript of Claude Code")
		require.Contains(t, got.out, "a/claude.jsonl: 4 lines, 1 of them skipped; 6 events added; session ")
		require.Contains(t, got.out, "b/rollout.jsonl: 2 lines; 3 events added; session ")
		require.Contains(t, got.out, ", import:codex:two\n")
		require.NotContains(t, got.out, "notes.txt")

		got = s.call("import", folder, "--json")
		require.Equal(t, exitDone, got.code)
		require.Empty(t, got.errs)
		var answer importAnswer
		require.NoError(t, json.Unmarshal([]byte(got.out), &answer))
		require.Zero(t, answer.Added)
		require.Equal(t, 9, answer.Known)
		require.Equal(t, 1, answer.Skipped)
		require.Equal(t, 1, answer.Refused)
		require.Equal(t, []transcript.Problem{{Line: 2, Reason: "it is no JSON: invalid character 'b' looking for beginning of object key string"}}, answer.Files[0].Problems)
		require.Equal(t, "import:claude:one", answer.Files[0].SessionKey)

		tail := s.done("session", "tail", "import:claude:one")
		require.Contains(t, tail, "▶ turn     say hello\n")
		require.Contains(t, tail, "‹ agent    Hello.")
		require.NotContains(t, tail, "import:claude:progress")
		require.Contains(t, s.done("session", "tail", "import:claude:one", "--all"), "import:claude:progress")
		sessions := decoded[struct{ Sessions []wire.ListedSession }](s, "session", "list").Sessions
		require.Len(t, sessions, 2)
		require.Equal(t, "list files", *sessions[0].Title)
	})
}

func TestImportOfNothing(t *testing.T) {
	t.Parallel()
	folder := transcriptFiles(t, map[string][]string{
		"one.jsonl": {claudePrompt}, "other.jsonl": {`{"level":"info"}`}, "broken.jsonl": {"{", "{"}, "empty/x.txt": {""},
	})
	s := newShell(t, "CAIRN_API_KEY=codai_x", "CAIRN_URL=http://127.0.0.1:1")
	file := func(name string) string { return filepath.Join(folder, name) }
	s.refused(exitUsage, []string{"--format is claude, codex or acp"}, "import", "--format", "word", file("one.jsonl"))
	s.refused(exitUsage, []string{"--title is for one file"}, "import", "--title", "x", folder)
	s.refused(exitUsage, []string{"call it as `cairn import FILE...`"}, "import")
	s.refused(exitFailed, []string{"no such file"}, "import", file("none.jsonl"))
	s.refused(exitFailed, []string{"there is no *.jsonl in"}, "import", file("empty"))
	s.refused(exitFailed, []string{"it is no transcript of Claude Code", "nothing could be imported"}, "import", file("other.jsonl"))
	got := s.call("import", "--format", "claude", "--dry-run", file("broken.jsonl"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "broken.jsonl:1: it is no JSON")
	require.Contains(t, got.errs, "nothing could be imported")
	got = s.call("import", file("one.jsonl"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "cannot reach http://127.0.0.1:1")
	require.Contains(t, s.done("import", "--dry-run", file("one.jsonl")), "1 line; 2 events would be sent; nothing was sent, import:claude:one\n")
}

func TestAnImportSaysManyBadLinesOnce(t *testing.T) {
	t.Parallel()
	lines := append([]string{claudePrompt}, strings.Split(strings.Repeat("{\n", 99)+"{", "\n")...)
	folder := transcriptFiles(t, map[string][]string{"x.jsonl": lines})
	got := newShell(t).call("import", "--dry-run", folder)
	require.Equal(t, exitDone, got.code)
	require.Equal(t, maxProblems+1, strings.Count(got.errs, "\n"))
	require.Contains(t, got.errs, "80 more lines were skipped")
}

func TestMeterLine(t *testing.T) {
	t.Parallel()
	p := transcript.Progress{Read: 25_000_000, Size: 100_000_000, Events: 3000}
	require.Equal(t, "rollout-x.jsonl [#####---------------]  25% of 100.0 MB, 3000 events, 1500/s", meterLine("/a/rollout-x.jsonl", p, 2*time.Second))
	require.Equal(t, "x [####################] 100% of 0.0 MB, 0 events, 0/s", meterLine("x", transcript.Progress{}, 0))
	require.LessOrEqual(t, len(meterLine(strings.Repeat("x", 300), p, time.Second)), 100)
}

// A device has one lease however many of its processes work on a session: the second one would end the first.
func TestImportBesideRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := filepath.Join(transcriptFiles(t, map[string][]string{"one.jsonl": {claudePrompt, claudeAnswer}}), "one.jsonl")
	require.Equal(t, exitDone, m.call("import", file).code)
	runs := m.background(append([]string{"run", "--session", "import:claude:one", "--"}, acpagent.Command(t)...)...)
	require.Eventually(t, func() bool { return strings.Contains(runs.out.String(), "agent  ") }, patience, 10*time.Millisecond)
	got := m.call("import", file)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "another cairn on this machine executes this session")
	folder := transcriptFiles(t, map[string][]string{"one.jsonl": {claudePrompt, claudeAnswer}, "two.jsonl": {strings.ReplaceAll(claudePrompt, `"one"`, `"two"`)}})
	got = m.call("import", folder)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "1 sessions are executed by somebody now")
	_, err := m.phone.GetSession(t.Context(), "import:claude:two")
	require.NoError(t, err, "the other one is there")
	detail, err := m.phone.GetSession(t.Context(), "import:claude:one")
	require.NoError(t, err)
	require.NotNil(t, detail.Lease, "the run goes on")
	require.Equal(t, exitDone, runs.end().code)
	require.Equal(t, exitDone, m.call("import", file).code)
}
