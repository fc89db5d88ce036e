package workspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestMentionsIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                    nil,
		"hello @anna":                         {"anna"},
		"@anna, @bob: @anna!":                 {"anna", "bob"},
		"(@a.b-c_d).":                         {"a.b-c_d"},
		"@anna.":                              {"anna"},
		"mail anna@example.org":               nil,
		"https://example.org/@anna":           nil,
		"\\@anna":                             nil,
		"@@anna":                              nil,
		"@":                                   nil,
		"@ anna @- @_x":                       nil,
		"über @Ärzte":                         {"Ärzte"},
		"`@anna` @bob":                        {"bob"},
		"``a ` @anna`` @bob":                  {"bob"},
		"one ` alone @anna":                   {"anna"},
		"`over\nlines @anna` @bob":            {"bob"},
		"`not over\n\nparagraphs @anna`":      {"anna"},
		"\\`@anna`":                           {"anna"},
		"```\n@anna\n```\n@bob":               {"bob"},
		"~~~ go\n@anna\n```\n~~~~\n@bob":      {"bob"},
		"```\n@anna":                          nil,
		"``` a`b @anna":                       {"anna"},
		"text\n```\n@anna\n```":               nil,
		"  ```\n@anna\n  ```\n@bob":           {"bob"},
		"    @anna":                           nil,
		"\t@anna":                             nil,
		"text\n\n    @anna\n\n    @x\n@bob":   {"bob"},
		"text\n    @anna":                     {"anna"},
		"- item\n\n    @anna":                 {"anna"},
		"1. item\n\n    @anna":                {"anna"},
		"> @anna":                             {"anna"},
		"@anna\r\n```\r\n@bob\r\n```\r\n@eve": {"anna", "eve"},
	} {
		require.Equal(t, want, workspace.MentionsIn(text), "%q", text)
	}
}

// Any text is looked through once, and nothing in it stops the looking.
func FuzzMentionsIn(f *testing.F) {
	for _, text := range []string{"@a `@b` ```", "~~~\n@a", "`` ` @x", "- a\n\n    @b", "\xff@a\x80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range workspace.MentionsIn(text) {
			require.NotEmpty(t, name)
			require.Contains(t, text, "@"+name)
		}
	})
}

func TestMentions(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		channel := w.text()
		thread := channel.MainThreadID
		anna := w.member("anna", onChannel(channel.ID), wire.LevelRead)
		bob := w.member("bob", onSpace(channel.SpaceID), wire.LevelWrite)
		stranger := w.person("stranger")
		gone := w.member("gone", onChannel(channel.ID), wire.LevelRead)
		w.change(`UPDATE principals SET status = 'disabled' WHERE id = $1`, gone.Principal)
		group := w.env.NewID()
		w.exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, 'Crew', 1)`, group)
		for _, member := range []string{anna.Principal, stranger.Principal} {
			w.change(`INSERT INTO group_members (group_id, principal_id) VALUES ($1, $2)`, group, member)
		}
		past := w.member("past", onChannel(channel.ID), wire.LevelRead)
		w.change(`INSERT INTO group_members (group_id, principal_id, expires_at) VALUES ($1, $2, 5)`, group, past.Principal)
		w.run("a handle mentions who may read the channel, and nobody else", func(w *world) {
			m := w.say(bob, thread, "@anna @bob @stranger @gone @nobody `@owner`")
			require.ElementsMatch(w, []string{anna.Principal, bob.Principal}, m.MentionIDs)
			require.EqualValues(w, 2, w.number(`SELECT count(*) FROM message_mentions WHERE message_id = $1`, m.ID))
			got, err := w.Message(w.Context(), bob, m.ID)
			require.NoError(w, err)
			require.Equal(w, m.MentionIDs, got.MentionIDs)
		})
		w.run("a group mentions its members who may read, whatever the case", func(w *world) {
			require.Equal(w, []string{anna.Principal}, w.say(bob, thread, "@crew look").MentionIDs)
			require.Equal(w, []string{anna.Principal}, w.say(bob, thread, "@Crew and @ANNA").MentionIDs)
		})
		w.run("mentions are of the moment they were written", func(w *world) {
			m := w.say(bob, thread, "@stranger")
			w.grant(stranger, onChannel(channel.ID), wire.LevelRead)
			got, err := w.Message(w.Context(), bob, m.ID)
			require.NoError(w, err)
			require.Empty(w, got.MentionIDs)
			require.Equal(w, []string{stranger.Principal}, w.say(bob, thread, "@stranger").MentionIDs)
		})
	})
}

// Groups larger than what a message mentions hide nobody whom it names, and nobody who may read.
func TestMentionsOfLargeGroups(t *testing.T) {
	t.Parallel()
	const members = 2500
	each(t, func(w *world) {
		channel := w.text()
		group := w.env.NewID()
		w.exec(`INSERT INTO principal_groups (id, name, created_at) VALUES ($1, 'all', 1)`, group)
		crowd := make([][]any, members)
		belongs := make([][]any, members)
		for i := range crowd {
			id := w.env.NewID()
			crowd[i] = []any{id, "agent", "m" + id, "m", "active", int64(1)}
			belongs[i] = []any{group, id}
		}
		textual := func(names ...string) (columns []storage.Column) {
			for _, name := range names {
				columns = append(columns, storage.Column{Name: name, Type: storage.Text})
			}
			return columns
		}
		require.NoError(w, w.db.Write(w.Context(), nil, func(tx storage.Tx) error {
			columns := append(textual("id", "kind", "handle", "display_name", "status"), storage.Column{Name: "created_at", Type: storage.Bigint})
			if err := tx.Insert(storage.Table{Name: "principals", Columns: columns}, crowd); err != nil {
				return err
			}
			return tx.Insert(storage.Table{Name: "group_members", Columns: textual("group_id", "principal_id")}, belongs)
		}))
		late := w.member("late", onChannel(channel.ID), wire.LevelRead) // its id is larger than those of all the others
		w.run("who is named is mentioned", func(w *world) {
			require.Equal(w, []string{late.Principal}, w.say(w.owner, channel.MainThreadID, "@all @late").MentionIDs)
		})
		w.run("members who may read are found behind those who may not", func(w *world) {
			w.change(`INSERT INTO group_members (group_id, principal_id) VALUES ($1, $2)`, group, late.Principal)
			require.Equal(w, []string{late.Principal}, w.say(w.owner, channel.MainThreadID, "@all").MentionIDs)
		})
		w.run("a group mentions so many and no more, and nobody twice", func(w *world) {
			w.change(`INSERT INTO grants (id, subject_kind, subject_id, target_kind, target_id, level, created_at)
				VALUES ($1, 'group', $2, 'channel', $3, 'read', 1)`, w.env.NewID(), group, channel.ID)
			w.say(w.owner, channel.MainThreadID, "@all @late")
			require.EqualValues(w, 1001, w.number(`SELECT count(*) FROM message_mentions WHERE thread_seq = 3`))
			require.EqualValues(w, 1, w.number(`SELECT count(*) FROM message_mentions WHERE thread_seq = 3 AND principal_id = $1`, late.Principal))
		})
	})
}
