package transfer_test

import (
	"archive/zip"
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/transfer"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestSlack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	report, problems := run(t, s, filepath.Join("testdata", "slack"), transfer.Options{Format: transfer.Slack, SpaceID: "space"})
	require.Equal(t, []string{
		"Welcome @Tom Baker to #random & [our **site**](https://example.org/a%28b%29)",
		"**Thanks**! Look at `a *b* <c>` and ~~this~~ **two** **words** _here_",
		"released @here",
		"[file: plan.pdf]\n[file: notes]",
		"Good morning",
	}, s.texts("general/main"))
	require.Equal(t, []string{"**Plan** for the week\nwith details", "I take Monday", "Late to it"}, s.texts("general/Plan** for the week"))
	require.Equal(t, []string{"A joke"}, s.texts("random/main"))
	require.NotContains(t, s.threads, "secret/main")

	welcome := s.threads["general/main"][0]
	require.Equal(t, time.Date(2023, 1, 2, 9, 0, 1, 200_000, time.UTC), welcome.CreatedAt)
	require.Equal(t, "C1:1672650001.000200", welcome.SourceID)
	require.Equal(t, "maria@example.org", welcome.AuthorEmail)
	require.True(t, welcome.Pinned)
	require.Equal(t, []wire.ImportReaction{
		{Emoji: "👍", AuthorSourceID: "U2", AuthorName: "Tom Baker"}, {Emoji: "👍", AuthorSourceID: "U9", AuthorName: "U9"},
		{Emoji: ":party-parrot:", AuthorSourceID: "U1", AuthorName: "maria", AuthorEmail: "maria@example.org"},
	}, welcome.Reactions)
	require.NotNil(t, s.threads["general/main"][1].EditedAt)
	require.Equal(t, "bot:B1", s.threads["general/main"][2].AuthorSourceID)
	require.Equal(t, "A guest", s.threads["general/Plan** for the week"][2].AuthorName)

	require.EqualValues(t, 9, report.Added)
	require.Equal(t, 2, report.Channels)
	require.Equal(t, map[string]int64{
		"news of channels": 1, "messages without text": 1, "private channels": 1, "direct messages": 1,
	}, report.Left)
	require.EqualValues(t, len(problems), report.Problems)
	require.Len(t, problems, 5)
	for i, begin := range []string{
		"users.json:3:", "channels.json:3:", "general/2023-01-02.json:8:", "general/2023-01-02.json:9:", "general/2023-01-03.json:0: the rest",
	} {
		require.Contains(t, problems[i], begin)
	}
}

func TestMattermost(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	file := filepath.Join("testdata", "mattermost.jsonl")
	report, problems := run(t, s, file, transfer.Options{Format: transfer.Mattermost, SpaceID: "space"})
	require.Equal(t, []string{"Hello **everyone**"}, s.texts("Town Square/main"))
	require.Equal(t, []string{"Lunch?", "Yes", "Me too\n[file: menu.png]"}, s.texts("Town Square/Lunch?"))
	hello := s.threads["Town Square/main"][0]
	require.Equal(t, time.Date(2023, 1, 2, 9, 0, 1, 0, time.UTC), hello.CreatedAt)
	require.Equal(t, "Maria Lopez", hello.AuthorName)
	require.True(t, hello.Pinned)
	require.NotNil(t, hello.EditedAt)
	require.Equal(t, []wire.ImportReaction{{Emoji: "❤️", AuthorSourceID: "tom", AuthorName: "Tommy", AuthorEmail: "tom@example.org"}}, hello.Reactions)
	require.EqualValues(t, 4, report.Added)
	require.EqualValues(t, 1, report.Known, "the export says one post twice")
	require.Equal(t, map[string]int64{"posts of private channels": 1, "news of channels": 1, "direct messages": 2}, report.Left)
	require.Len(t, problems, 5)
	for i, line := range []int{11, 13, 14, 17, 19} {
		require.Contains(t, problems[i], fmt.Sprintf("mattermost.jsonl:%d:", line))
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, info.Size(), report.Read)
}

func TestSomethingElseLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file   string
		format transfer.Format
	}{
		"a mattermost export as one of slack":    {filepath.Join("testdata", "mattermost.jsonl"), transfer.Slack},
		"a slack export as one of mattermost":    {zipped(t, filepath.Join("testdata", "slack"), ""), transfer.Mattermost},
		"an archive that has nothing of slack's": {zipped(t, t.TempDir(), "empty"), transfer.Slack},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			_, err := transfer.Run(t.Context(), s, c.file, transfer.Options{Format: c.format, SpaceID: "space", Position: filepath.Join(t.TempDir(), "at")})
			require.Error(t, err)
			require.False(t, s.started, err.Error())
		})
	}
}

func TestPrivateChannelsAreAskedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	run(t, s, filepath.Join("testdata", "slack"), transfer.Options{Format: transfer.Slack, Private: true})
	require.Equal(t, []string{"Nobody may know"}, s.texts("secret/main"))
	s = newServer(t)
	run(t, s, filepath.Join("testdata", "mattermost.jsonl"), transfer.Options{Format: transfer.Mattermost, Private: true})
	require.Equal(t, []string{"Secret"}, s.texts("Board/main"))
}

// zipped puts a folder into a zip file, under a folder.
func zipped(t *testing.T, folder, under string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "export.zip")
	file, err := os.Create(name)
	require.NoError(t, err)
	archive := zip.NewWriter(file)
	require.NoError(t, filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		into, err := archive.Create(filepath.ToSlash(filepath.Join(under, relative)))
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = into.Write(content)
		return err
	}))
	require.NoError(t, archive.Close())
	require.NoError(t, file.Close())
	return name
}

func TestZipFiles(t *testing.T) {
	t.Parallel()
	plain := newServer(t)
	run(t, plain, filepath.Join("testdata", "slack"), transfer.Options{Format: transfer.Slack})
	for _, under := range []string{"", "acme export"} {
		s := newServer(t)
		run(t, s, zipped(t, filepath.Join("testdata", "slack"), under), transfer.Options{Format: transfer.Slack})
		require.Equal(t, plain.threads, s.threads)
	}
}

func TestWhatIsNoExport(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	broken := filepath.Join(empty, "broken.zip")
	require.NoError(t, os.WriteFile(broken, []byte("PK\x03\x04 and nothing"), 0o600))
	text := filepath.Join(empty, "text.txt")
	require.NoError(t, os.WriteFile(text, []byte("hello"), 0o600))
	for _, c := range []struct {
		file   string
		format transfer.Format
	}{
		{empty, transfer.Slack}, {empty, transfer.Mattermost}, {broken, transfer.Slack}, {text, transfer.Slack},
		{filepath.Join(empty, "missing"), transfer.Mattermost}, {text, "irc"},
	} {
		_, err := transfer.Run(t.Context(), newServer(t), c.file, transfer.Options{Format: c.format})
		require.Error(t, err, "%v", c)
	}
}

func TestRunningAgainAddsNothing(t *testing.T) {
	t.Parallel()
	for format, file := range map[transfer.Format]string{transfer.Slack: "slack", transfer.Mattermost: "mattermost.jsonl"} {
		s := newServer(t)
		first, _ := run(t, s, filepath.Join("testdata", file), transfer.Options{Format: format})
		again, _ := run(t, s, filepath.Join("testdata", file), transfer.Options{Format: format})
		require.Zero(t, again.Added)
		require.Equal(t, first.Added+first.Known, again.Known)
	}
}

// mattermost writes an export with so many posts.
func mattermost(t testing.TB, posts int, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "export.jsonl")
	file, err := os.Create(name)
	require.NoError(t, err)
	out := bufio.NewWriter(file)
	fmt.Fprintln(out, `{"type":"channel","channel":{"team":"t","name":"c","display_name":"C","type":"O"}}`)
	for i := range posts {
		fmt.Fprintf(out, `{"type":"post","post":{"team":"t","channel":"c","user":"u%d","message":"%d %s","create_at":%d}}`+"\n", i%50, i, text, 1_600_000_000_000+i)
	}
	require.NoError(t, out.Flush())
	require.NoError(t, file.Close())
	return name
}

func TestGoingOnAfterAnInterruption(t *testing.T) {
	t.Parallel()
	file := mattermost(t, 12_000, "post")
	for _, position := range []string{"", filepath.Join(t.TempDir(), "state", "position")} {
		s := newServer(t)
		o := transfer.Options{Format: transfer.Mattermost, Position: position}
		for at := 10; ; at += 17 {
			s.failAfter, s.batches = at, 0
			_, err := transfer.Run(t.Context(), s, file, o)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, errAway)
		}
		all := s.threads["C/main"]
		require.Len(t, all, 12_000)
		for i, m := range all {
			require.Equal(t, fmt.Sprintf("%d post", i), m.ContentMD)
		}
		if position != "" {
			require.NoFileExists(t, position, "it came to its end")
		}
	}
}

func TestAPositionSparesWork(t *testing.T) {
	t.Parallel()
	position := filepath.Join(t.TempDir(), "position")
	folder := filepath.Join("testdata", "slack")
	o := transfer.Options{Format: transfer.Slack, Position: position}
	s := newServer(t)
	s.failAfter = 2
	_, err := transfer.Run(t.Context(), s, folder, o)
	require.ErrorIs(t, err, errAway)
	require.FileExists(t, position)
	s.failAfter = 0
	report, _ := run(t, s, folder, o)
	require.Zero(t, report.Known, "what was applied is not read again")
	require.Len(t, s.texts("general/main"), 5)
	require.Len(t, s.texts("general/Plan** for the week"), 3)

	require.NoError(t, os.WriteFile(position, []byte(`{"of":"slack:slack\n","at":"gone/2000-01-01.json"}`), 0o600))
	s = newServer(t)
	report, _ = run(t, s, folder, o)
	require.EqualValues(t, 9, report.Added, "a place that is not in the export is none")
	require.NoError(t, os.WriteFile(position, []byte(`damaged`), 0o600))
	s = newServer(t)
	report, _ = run(t, s, folder, o)
	require.EqualValues(t, 9, report.Added)
}

func TestLongMessages(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 9000)
	s := newServer(t)
	run(t, s, mattermost(t, 1, text), transfer.Options{Format: transfer.Mattermost})
	parts := s.threads["C/main"]
	require.Len(t, parts, 3)
	require.Equal(t, strings.Fields("0 "+text), strings.Fields(strings.Join(s.texts("C/main"), " ")))
	require.Equal(t, parts[0].SourceID+"#2", parts[1].SourceID)
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	file := mattermost(t, 60_000, strings.Repeat("some text of a post ", 50)) // 64 MB
	s := &forgetful{server: newServer(t)}
	var most uint64
	_, err := transfer.Run(t.Context(), s, file, transfer.Options{Format: transfer.Mattermost, Progress: func(r transfer.Report) {
		if r.Batches%40 == 0 {
			var memory runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&memory)
			most = max(most, memory.HeapAlloc)
		}
	}})
	require.NoError(t, err)
	require.NotZero(t, most)
	require.Less(t, most, uint64(48<<20))
	require.LessOrEqual(t, s.waiting, 2<<20)
}

// forgetful keeps only how large batches were.
type forgetful struct{ *server }

func (f *forgetful) ImportBatch(_ context.Context, id string, b wire.ImportBatch) (wire.ImportReceipt, error) {
	size := 0
	for _, m := range b.Messages {
		size += len(m.ContentMD)
	}
	f.waiting = max(f.waiting, size)
	return wire.ImportReceipt{Import: wire.Import{ID: id}, Added: int64(len(b.Messages))}, nil
}

func TestHugeLinesAndItemsAreSkipped(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "export.jsonl")
	huge := `{"type":"post","post":{"message":"` + strings.Repeat("x", 17<<20) + `"}}`
	good := `{"type":"channel","channel":{"team":"t","name":"c","type":"O"}}` + "\n" +
		`{"type":"post","post":{"team":"t","channel":"c","user":"u","message":"after","create_at":1600000000000}}`
	require.NoError(t, os.WriteFile(name, []byte(huge+"\n"+good), 0o600))
	s := newServer(t)
	report, problems := run(t, s, name, transfer.Options{Format: transfer.Mattermost})
	require.Equal(t, []string{"after"}, s.texts("c/main"))
	require.EqualValues(t, 1, report.Problems)
	require.Contains(t, problems[0], "export.jsonl:1:")
}

// Whatever an export calls an emoji, the server takes it as a reaction.
func TestNamesOfEmoji(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"+1": "👍", ":party parrot:": ":party_parrot:", "": ":?:", strings.Repeat("€", 40): ":" + strings.Repeat("€", 20) + ":",
	} {
		require.Equal(t, want, transfer.Emoji(name), name)
	}
}
