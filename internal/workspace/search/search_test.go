package search_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestWords(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		main := w.Text().MainThreadID
		texts := []string{
			"The quick brown Fox", "Quick answers, please!", "Straße nach München", "déjà vu", "\u6771\u4eac\u90fd\u306b\u4f4f\u3080", "release v2.10.3 is out",
			"it's an O'Brien thing", `back\slash "quoted" (a:*) & | ! <-> 'x'`, "snake_case and kebab-case", "mail ann@example.org",
			strings.Repeat("long", 100), "x", "emoji 🎉 only letters count", "👍",
		}
		for _, text := range texts {
			w.Say(w.Owner, main, text)
		}
		for query, want := range map[string][]string{
			"quick":                        {texts[1], texts[0]},
			"QUICK fox":                    {texts[0]},
			"qui":                          {texts[1], texts[0]},
			"qui fox":                      {},
			"fox qui":                      {texts[0]},
			"strasse":                      {texts[2]},
			"munchen MÜNCHEN":              {texts[2]},
			"deja":                         {texts[3]},
			"\u6771\u4eac":                 {texts[4]},
			"\u6771":                       {texts[4]},
			"\u4eac\u90fd\u306b":           {texts[4]},
			"\u90fd\u4eac":                 {},
			"10.3":                         {texts[5]},
			"o'brien":                      {texts[6]},
			`"quoted" slash`:               {texts[7]},
			"' | 'x":                       {texts[11], texts[7]},
			"case kebab":                   {texts[8]},
			"example.org ann":              {texts[9]},
			strings.Repeat("longl", 4):     {},
			strings.Repeat("long", 20):     {texts[10]},
			"letters":                      {texts[12]},
			"nothing like it":              {},
			"\uE000" + "owner":             {},
			"a OR b NEAR(c) NOT quick AND": {},
		} {
			require.Equal(w, want, w.find(w.Owner, query), "%q", query)
		}
		for _, query := range []string{"", "  ", "!?*", "👍", "\"", strings.Repeat("a ", 90) + strings.Repeat("b", 40), strings.Repeat("q", 201), "a\x00b", "\xff"} {
			_, err := w.Search(w.Context(), w.Owner, query, place.Paging{})
			w.Invalid("q", err)
		}
		var many []string
		for i := range 17 {
			many = append(many, fmt.Sprintf("w%d", i))
		}
		_, err := w.Search(w.Context(), w.Owner, strings.Join(many, " "), place.Paging{})
		w.Invalid("q", err)
		_, err = w.Search(w.Context(), w.Owner, "x", place.Paging{After: "y"})
		w.Invalid("cursor", err)
	})
}

func TestWhatIsFound(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		open := w.Text()
		closed := w.Channel(open.SpaceID, wire.ChannelText)
		ann := w.Member("ann", team.OnChannel(open.ID), wire.LevelWrite)
		bob := w.Member("bob", team.OnSpace(open.SpaceID), wire.LevelRead)
		eve := w.Person("eve")
		first := w.Say(w.Owner, open.MainThreadID, "needle in the open")
		w.Say(w.Owner, closed.MainThreadID, "needle behind doors")
		w.run("WS-4 only what the caller may read is found", func(w *finder) {
			require.Equal(w, []string{"needle in the open"}, w.find(ann, "needle"))
			require.Equal(w, []string{"needle behind doors", "needle in the open"}, w.find(bob, "needle"))
			require.Equal(w, []string{"needle behind doors", "needle in the open"}, w.find(w.Owner, "needle"))
			require.Empty(w, w.find(eve, "needle"))
			_, err := w.Search(w.Context(), authz.Caller{Principal: w.Env.NewID()}, "needle", place.Paging{})
			w.Refused(code.InvalidToken, err)
		})
		w.run("WS-AZ-2 a revocation counts at once", func(w *finder) {
			w.Revoke(bob)
			page, err := w.Search(w.Context(), bob, "needle", place.Paging{})
			require.NoError(w, err)
			require.Empty(w, page.Items)
			w.Grant(bob, team.OnChannel(closed.ID), wire.LevelRead)
			require.Equal(w, []string{"needle behind doors"}, w.find(bob, "needle"))
		})
		w.run("WS-5 edits and deletions take their words out", func(w *finder) {
			w.edit(w.Owner, first, "pin in the open")
			require.Empty(w, w.find(ann, "needle"))
			require.Equal(w, []string{"pin in the open"}, w.find(ann, "pin"))
			require.NoError(w, w.Domain.DeleteMessage(w.Context(), w.Owner, first.ID))
			page, err := w.Search(w.Context(), ann, "pin", place.Paging{})
			require.NoError(w, err)
			require.Empty(w, page.Items, "before the index knows")
			require.Empty(w, w.find(ann, "pin"))
			require.Zero(w, w.Number(`SELECT count(*) FROM search_docs WHERE message_id = $1`, first.ID))
			if w.Engine == "sqlite" {
				require.Zero(w, w.Number(`SELECT count(*) FROM message_search WHERE message_search MATCH 'pin OR needle AND open'`))
			}
		})
		w.run("WS-5 a thread that moved takes its past along", func(w *finder) {
			started := w.Start(w.Owner, open.ID, "wanders")
			for range 3 {
				w.Say(w.Owner, started.Thread.ID, "haystack")
			}
			require.Len(w, w.find(ann, "haystack"), 3)
			_, err := w.Domain.MoveThread(w.Context(), w.Owner, started.Thread.ID, nil, wire.MoveThread{ChannelID: closed.ID})
			require.NoError(w, err)
			page, err := w.Search(w.Context(), ann, "haystack", place.Paging{})
			require.NoError(w, err)
			require.Empty(w, page.Items, "before the index knows")
			require.Len(w, w.find(bob, "haystack"), 3)
			require.Empty(w, w.find(ann, "haystack"))
		})
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelRead)
		hidden := w.Text()
		var want []string
		for i := range 23 {
			text := fmt.Sprintf("common %d", i)
			w.Say(w.Owner, channel.MainThreadID, text)
			w.Say(w.Owner, hidden.MainThreadID, "common hidden")
			want = append(want, text)
		}
		w.follow()
		var got []string
		for paging := (place.Paging{Limit: 5}); ; {
			page, err := w.Search(w.Context(), ann, "common", paging)
			require.NoError(w, err)
			for _, m := range page.Items {
				got = append(got, m.ContentMD)
			}
			if paging.After = page.NextCursor; paging.After == "" {
				break
			}
		}
		require.Equal(w, reversed(want), got, "newest first, each once")
	})
}

func TestImportedMessagesAreFound(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		space := w.Space()
		made, _, err := w.Imports.Create(w.Context(), w.Owner, wire.NewImport{SpaceID: space.ID, Source: "src"})
		require.NoError(w, err)
		batch := wire.ImportBatch{Channel: wire.ImportChannel{SourceID: "C", Name: "c"}, Thread: wire.ImportThread{SourceID: "T", Title: "t"}}
		apply := func(from, n int) {
			batch.Messages = nil
			for i := from; i < from+n; i++ {
				batch.Messages = append(batch.Messages, wire.ImportMessage{
					SourceID: fmt.Sprint(i), AuthorSourceID: "U", ContentMD: "imported words", CreatedAt: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC),
				})
			}
			_, err := w.Imports.Apply(w.Context(), w.Owner, made.ID, batch)
			require.NoError(w, err)
		}
		apply(0, 500)
		w.follow()
		apply(500, 300)
		apply(800, 1)
		w.follow()
		require.EqualValues(w, 801, w.Number(`SELECT count(*) FROM search_docs`))
		w.Say(w.Owner, w.Text().MainThreadID, "recent words")
		require.Equal(w, "recent words", w.find(w.Owner, "words")[0], "newest first, by when it was written")
	})
}

func TestTheIndexIsBuiltAnew(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		main := w.Text().MainThreadID
		kept := w.Say(w.Owner, main, "kept alpha")
		gone := w.Say(w.Owner, main, "gone alpha")
		require.Len(w, w.find(w.Owner, "alpha"), 2)
		changed := func() {
			require.NoError(w, w.Domain.DeleteMessage(w.Context(), w.Owner, gone.ID))
			w.edit(w.Owner, kept, "kept beta")
			w.Say(w.Owner, main, "new beta")
		}
		w.run("ES-7.3 when retention was faster", func(w *finder) {
			changed()
			head := w.Head()
			w.Exec(`DELETE FROM event_log`)
			w.Exec(`UPDATE instance SET min_retained_seq = $1`, head+1)
			require.Equal(w, []string{"new beta", "kept beta"}, w.find(w.Owner, "beta"))
			require.Empty(w, w.find(w.Owner, "alpha"))
		})
		w.run("ES-7.5 when the timeline is another one", func(w *finder) {
			w.Say(w.Owner, main, "after the backup")
			w.Exec(`UPDATE instance SET sync_epoch = $1`, w.Env.NewID())
			w.Exec(`UPDATE event_consumer_cursors SET last_seq = $1`, w.Head())
			require.Len(w, w.find(w.Owner, "backup"), 1, "though the cursor was moved past it")
		})
		w.run("when its cursor is lost, or ahead", func(w *finder) {
			w.Exec(`DELETE FROM event_consumer_cursors`)
			require.Len(w, w.find(w.Owner, "beta"), 2)
			w.Exec(`UPDATE event_consumer_cursors SET last_seq = 1000000`)
			w.Say(w.Owner, main, "more beta")
			require.Len(w, w.find(w.Owner, "beta"), 3)
		})
	})
}

func TestEnormousMessages(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		m := w.Say(w.Owner, w.Text().MainThreadID, "small")
		var text strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&text, "%d%s ", i, strings.Repeat("\U0001D7D8\U00010400", 32)) // letters of four bytes
		}
		w.Exec(`UPDATE messages SET content_md = $2 WHERE id = $1`, m.ID, text.String())
		require.Len(w, w.find(w.Owner, "0"), 1)
		w.Say(w.Owner, w.Text().MainThreadID, "the next one")
		require.Len(w, w.find(w.Owner, "next"), 1)
	})
}

// TestNodes has several indexers follow one log while people write; each message is in the index once.
func TestNodes(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		main := w.Text().MainThreadID
		for range 3 {
			defer w.start()()
		}
		var said []wire.Message
		for i := range 60 {
			said = append(said, w.Say(w.Owner, main, fmt.Sprintf("shared %d", i)))
			if i%7 == 0 {
				require.NoError(w, w.Domain.DeleteMessage(w.Context(), w.Owner, said[i].ID))
			}
		}
		require.Eventually(w, func() bool { return len(w.find(w.Owner, "shared")) == 51 }, patience, 10*time.Millisecond)
		require.EqualValues(w, 51, w.Number(`SELECT count(*) FROM search_docs`))
	})
}

// TestFoundIsWhatMatches compares answers with a look at every message, over random histories.
func TestFoundIsWhatMatches(t *testing.T) {
	t.Parallel()
	each(t, func(w *finder) {
		space := w.Space()
		channels := []wire.Channel{w.Channel(space.ID, wire.ChannelText), w.Channel(space.ID, wire.ChannelText)}
		ann := w.Member("ann", team.OnChannel(channels[0].ID), wire.LevelRead)
		vocabulary := []string{"ape", "apex", "bee", "cow", "Élan", "dog7"}
		rapid.Check(w.TB.(*testing.T), func(r *rapid.T) {
			tag := "t" + strings.ReplaceAll(w.Env.NewID(), "-", "") // what this history wrote
			text := func() string {
				return strings.Join(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 4).Draw(r, "words"), " ") + " " + tag
			}
			var threads []string
			for _, c := range channels {
				threads = append(threads, w.Start(w.Owner, c.ID, "t").Thread.ID)
			}
			var said []wire.Message
			for range rapid.IntRange(1, 10).Draw(r, "steps") {
				switch rapid.IntRange(0, 5).Draw(r, "what") {
				case 0, 1, 2:
					said = append(said, w.Say(w.Owner, rapid.SampledFrom(threads).Draw(r, "thread"), text()))
				case 3:
					if len(said) > 0 {
						m := rapid.SampledFrom(said).Draw(r, "edited")
						if current, err := w.Domain.Message(w.Context(), w.Owner, m.ID); err == nil && current.DeletedAt == nil {
							w.edit(w.Owner, current, text())
						}
					}
				case 4:
					if len(said) > 0 {
						require.NoError(r, w.Domain.DeleteMessage(w.Context(), w.Owner, rapid.SampledFrom(said).Draw(r, "gone").ID))
					}
				default:
					to := rapid.SampledFrom(channels).Draw(r, "to").ID
					_, err := w.Domain.MoveThread(w.Context(), w.Owner, rapid.SampledFrom(threads).Draw(r, "moved"), nil, wire.MoveThread{ChannelID: to})
					if err != nil {
						w.Refused(code.Conflict, err)
					}
				}
				if rapid.Bool().Draw(r, "follow") {
					w.follow()
				}
			}
			word := strings.ToLower(rapid.SampledFrom(vocabulary).Draw(r, "query"))
			require.Equal(r, w.matching(r, said, word, ""), sorted(w.find(w.Owner, tag+" "+word)))
			require.Equal(r, w.matching(r, said, word, channels[0].ID), sorted(w.find(ann, tag+" "+word)))
		})
	})
}

func sorted(texts []string) []string {
	slices.Sort(texts)
	return texts
}

// matching looks at every message: with a word that begins so, in a channel or anywhere.
func (w *finder) matching(r *rapid.T, said []wire.Message, word, channel string) []string {
	found := []string{}
	for _, m := range said {
		current, err := w.Domain.Message(w.Context(), w.Owner, m.ID)
		require.NoError(r, err)
		if current.DeletedAt != nil || channel != "" && current.ChannelID != channel {
			continue
		}
		if slices.ContainsFunc(strings.Fields(strings.ToLower(current.ContentMD)), func(has string) bool { return strings.HasPrefix(has, word) }) {
			found = append(found, current.ContentMD)
		}
	}
	return sorted(found)
}

// FuzzQueries has both engines read whatever somebody types.
func FuzzQueries(f *testing.F) {
	for _, seed := range []string{"word", `"a" OR 'b':* & !c <-> (d)`, "ß ﬁ İ", "\u65e5\u672c\u8a9e \u0e44\u0e17\u0e22", "\uE000x", "a\\b''"} {
		f.Add(seed)
	}
	finders := map[string]*finder{}
	for _, engine := range []string{"sqlite", "postgres"} {
		w := newFinder(team.New(f, team.Database(f, engine)))
		w.Say(w.Owner, w.Text().MainThreadID, "word")
		w.follow()
		finders[engine] = w
	}
	f.Fuzz(func(t *testing.T, query string) {
		main := ""
		for _, w := range finders {
			page, err := w.Search(t.Context(), w.Owner, query, place.Paging{})
			if err != nil {
				require.True(t, fault.Is(err, code.ValidationFailed), "%v", err)
				continue
			}
			require.LessOrEqual(t, len(page.Items), 1)
			if main == "" {
				main = fmt.Sprint(len(page.Items))
			}
			require.Equal(t, main, fmt.Sprint(len(page.Items)), "both engines agree")
		}
	})
}
