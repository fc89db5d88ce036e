package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func claudeLine(uuid, rest string) string {
	return fmt.Sprintf(`{"type":"user","uuid":%q,"sessionId":"s","timestamp":"2026-01-02T03:04:05Z",%s}`, uuid, rest)
}

func said(text string) string {
	return `"message":{"role":"user","content":` + string(encode(text)) + `}`
}

func lines(all ...string) []byte { return []byte(strings.Join(all, "\n") + "\n") }

// events are those of all steps.
func events(all []Step) []wire.IncomingEvent {
	var found []wire.IncomingEvent
	for _, step := range all {
		found = append(found, step.Events...)
	}
	return found
}

func TestEveryLineIsAccountedFor(t *testing.T) {
	t.Parallel()
	content := bytes.Join([][]byte{
		[]byte("\xef\xbb\xbf" + claudeLine("u-1", said("first"))),
		[]byte("{broken"), nil, []byte("   "), []byte(`[1]`), []byte(`"text"`), []byte("{\"a\":\"\xff\"}"),
		[]byte(claudeLine("u-2", said("second")) + "\r"),
		[]byte(`{"type":7}`), []byte(`{"type":"user","message":5}`), []byte(`{}`),
		[]byte(`{"type":"a\u0000b\tc` + strings.Repeat("ü", 80) + `"}`),
		[]byte(`{"type":"last, without an end"`),
	}, []byte("\n"))
	_, all := read(t, content, Claude)
	var outcome []string
	for _, step := range all {
		what := fmt.Sprint(len(step.Events))
		switch {
		case step.Skipped != "":
			what = step.Skipped[:min(len(step.Skipped), 16)]
		case step.Blank && len(step.Events) == 0:
			what = "blank"
		}
		outcome = append(outcome, what)
	}
	require.Equal(t, []string{
		"1", "it is no JSON: i", "blank", "blank", "it is no JSON ob", "it is no JSON ob", "it is not UTF-8", "2", "1", "1", "1", "1",
		"it is no JSON: u", "1",
	}, outcome)
	kinds := map[string]bool{}
	for _, event := range events(all) {
		kinds[event.Kind] = true
	}
	require.True(t, kinds["import:claude:unknown"])
	require.True(t, kinds["import:claude:user"], "a record of another shape keeps its type")
	require.True(t, kinds["import:claude:ab c"+strings.Repeat("ü", 46)], "%v", kinds)
}

func TestOpaqueRecordsAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	for _, record := range []string{
		`{"type":"x","n":[12345678901234567890,-0,1e400,1.0],"s":"\ud800\u0000<&>  é","a":1,"a":2}`,
		`{ "type" : "x" ,  "spaces" : [ ] }`,
	} {
		_, all := read(t, []byte(record), Claude)
		require.Equal(t, `{"record":`+record+`}`, string(all[0].Events[0].Payload))
	}
	t.Run("SS-OBJ-1 a record that is nested too deep is kept as text", func(t *testing.T) {
		t.Parallel()
		nested := func(levels int) string {
			return `{"type":"x","v":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
		}
		_, all := read(t, []byte(nested(wire.MaxDepth-1)), Claude)
		require.Equal(t, `{"record":`+nested(wire.MaxDepth-1)+`}`, string(all[0].Events[0].Payload))
		_, all = read(t, []byte(nested(wire.MaxDepth)), Claude)
		var kept struct {
			Text string `json:"record_text"`
		}
		require.NoError(t, json.Unmarshal(all[0].Events[0].Payload, &kept))
		require.Equal(t, nested(wire.MaxDepth), kept.Text)
	})
	t.Run("SS-OBJ-1 arguments that were a text do not nest deeper than the record", func(t *testing.T) {
		t.Parallel()
		inside := strings.Repeat("[", 600) + strings.Repeat("]", 600)
		record := fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call","name":"f","call_id":"c","arguments":%q}}`, inside)
		_, all := read(t, []byte(record), Codex)
		require.Len(t, all[0].Events, 3)
	})
}

func TestAnIDThatComesTwiceStaysUnique(t *testing.T) {
	t.Parallel()
	_, all := read(t, lines(
		claudeLine("a", said("one")), claudeLine("a", said("two")), claudeLine("a~2", said("three")), claudeLine("ä:0", said("four")),
		claudeLine("a", said("five")), `{"type":"x"}`, `{"type":"x"}`,
	), Claude)
	var ids []string
	for _, event := range events(all) {
		if event.Kind == trace.KindTurnStart {
			ids = append(ids, *event.ClientEventID)
		}
	}
	require.Equal(t, []string{"a:0", "a~2:1"}, ids[:2])
	require.Equal(t, "a~3:1", ids[4])
}

func TestATranscriptThatHasGrownBeginsTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "codex", "codex_old", "acp", "acp_wrapped"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := golden(t, name)
			survey, all := read(t, whole, "")
			ended := map[string]bool{}
			for cut := 1; cut < len(all); cut++ {
				part := bytes.Join(bytes.SplitAfterN(whole, []byte("\n"), cut+1)[:cut], nil)
				reader := NewReader(bytes.NewReader(part), survey)
				some := steps(t, reader)
				require.Len(t, some, cut+1)
				require.Equal(t, shown(all[:cut]), shown(some[:cut]), "the first %d lines", cut)
				for _, event := range some[cut].Events {
					require.False(t, ended[*event.ClientEventID], "the end of %d lines has the id of another end", cut)
					ended[*event.ClientEventID] = !strings.HasSuffix(*event.ClientEventID, ":usage")
				}
			}
		})
	}
}

func TestASubAgentsOwnFile(t *testing.T) {
	t.Parallel()
	line := func(uuid, content string) string {
		return fmt.Sprintf(`{"type":"user","uuid":%q,"isSidechain":true,"agentId":"ab12","sessionId":"s","timestamp":"2026-01-02T03:04:05Z",%s}`, uuid, content)
	}
	survey, all := read(t, lines(line("1", said("look around"))), "")
	require.Equal(t, "s:ab12", survey.ID, "it does not meet its parent's transcript")
	require.Equal(t, `{"text":"look around"}`, string(all[0].Events[0].Payload), "in its own file it is the main agent")
}

func TestTitles(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("wörter ", 40)
	for _, one := range []struct {
		content []byte
		want    string
	}{
		{lines(claudeLine("1", said("  one\n two\t\u0007three "))), "one two three"},
		{lines(claudeLine("1", said(long))), strings.TrimSpace(string([]rune(long)[:79])) + "…"},
		{lines(`{"type":"summary","summary":"Short","leafUuid":"x"}`), "Short"},
		{lines(`{"type":"summary","summary":"Short","leafUuid":"x"}`, claudeLine("1", said("asked"))), "asked"},
		{lines(`{"type":"custom-title","customTitle":"Mine","sessionId":"s"}`, claudeLine("1", said("asked"))), "Mine"},
		{lines(claudeLine("1", `"isMeta":true,`+said("no prompt"))), ""},
	} {
		survey, _ := read(t, one.content, "")
		require.Equal(t, one.want, survey.Title)
		require.LessOrEqual(t, len([]rune(survey.Title)), titleMax)
	}
}

func TestLinesThatAreTooLongAreNotHeld(t *testing.T) {
	t.Parallel()
	const longest = 256 << 10
	first, last := claudeLine("1", said("first")), claudeLine("2", said("last"))
	exact := `{"type":"x","pad":"` + strings.Repeat("a", longest-len(`{"type":"x","pad":""}`)) + `"}`
	require.Len(t, exact, longest)
	huge := io.MultiReader(strings.NewReader(`{"pad":"`), io.LimitReader(endless{}, 20<<20), strings.NewReader("\"}\n"))
	in := io.MultiReader(strings.NewReader(first+"\n"+exact+"\n"+exact+" \n"), huge, strings.NewReader(last))
	reader := newReader(in, Survey{Format: Claude}, longest)
	all := steps(t, reader)
	require.Len(t, all, 6)
	require.Len(t, all[1].Events, 1)
	require.Equal(t, fmt.Sprintf("it has %d bytes, the limit is %d", longest+2, longest), all[2].Skipped)
	require.Contains(t, all[3].Skipped, strconv.Itoa(20<<20+11))
	require.Equal(t, 5, all[4].Line)
	require.Equal(t, trace.KindTurnEnd, all[4].Events[0].Kind)
	require.LessOrEqual(t, cap(reader.lines.buffer), 2*longest)
}

// endless is the letter a, again and again.
type endless struct{}

func (endless) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = 'a'
	}
	return len(to), nil
}

func TestWhatIsTooLargeIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	big := strings.Repeat("ü", limit)
	many := "[" + strings.Repeat("1,", limit) + "1]"
	for name, record := range map[string]string{
		"opaque":       fmt.Sprintf(`{"type":"x","text":%q}`, big),
		"opaque, flat": fmt.Sprintf(`{"type":"x","list":%s}`, many),
		"result":       claudeLine("1", fmt.Sprintf(`"message":{"content":[{"type":"tool_result","tool_use_id":"t","content":%q}]}`, big)),
		"prompt":       claudeLine("1", said(big)),
		"many parts":   `{"type":"user","message":{"content":[` + strings.Repeat("{},", maxParts) + `{}]}}`,
		"escapes":      `{"type":"x","text":"` + strings.Repeat(`\ud83d\ude00`, limit/8) + `","u":"` + strings.Repeat(`\u00e4\n`, limit/8) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := NewReader(strings.NewReader(record), Survey{Format: Claude})
			reader.draft.limit = limit
			all := steps(t, reader)
			require.True(t, all[0].Cut)
			require.LessOrEqual(t, len(all[0].Events[0].Payload), limit)
			var cut struct {
				Truncated bool `json:"truncated"`
			}
			require.NoError(t, json.Unmarshal(all[0].Events[0].Payload, &cut))
			require.True(t, cut.Truncated)
			require.NotContains(t, string(all[0].Events[0].Payload), `\ud83d…`)
		})
	}
	_, all := read(t, []byte(claudeLine("1", said(big))), Claude)
	require.False(t, all[0].Cut)
}

func TestMoments(t *testing.T) {
	t.Parallel()
	const want = int64(1767323045006)
	for _, stamp := range []string{
		`"2026-01-02T03:04:05.006Z"`, `"2026-01-02T04:04:05.006+01:00"`, `"2026-01-02T03:04:05.006999Z"`,
		`1767323045006`, `1767323045006.9`, `1767323045006000`, `1767323045006000000`, `"1767323045006"`, `1767323045.0065`,
	} {
		got, ok := moment(json.RawMessage(stamp))
		require.True(t, ok, stamp)
		require.Equal(t, want, got, stamp)
	}
	for _, stamp := range []string{``, `null`, `""`, `"yesterday"`, `-1`, `0`, `1e99`, `{}`, `"NaN"`, `true`} {
		_, ok := moment(json.RawMessage(stamp))
		require.False(t, ok, stamp)
	}
}
