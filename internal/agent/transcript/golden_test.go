package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/agent/translate"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

var update = flag.Bool("update", false, "write the golden files anew")

// read answers every step of a transcript, and checks what holds for all of them.
func read(t testing.TB, content []byte, format Format) (Survey, []Step) {
	t.Helper()
	survey, err := Look(bytes.NewReader(content), format)
	require.NoError(t, err)
	return survey, steps(t, NewReader(bytes.NewReader(content), survey))
}

func steps(t testing.TB, reader *Reader) []Step {
	t.Helper()
	var all []Step
	ids := map[string]bool{}
	for {
		step, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		for _, event := range step.Events {
			require.NotNil(t, event.ClientEventID)
			require.False(t, ids[*event.ClientEventID], "id %s comes twice", *event.ClientEventID)
			ids[*event.ClientEventID] = true
			requireFit(t, event)
		}
		all = append(all, step)
	}
}

// requireFit checks an event against the limits of the protocol (SS-OBJ-1, SS-OBJ-2, SS-OBJ-4).
func requireFit(t testing.TB, event wire.IncomingEvent) {
	t.Helper()
	require.True(t, json.Valid(event.Payload), "%s", event.Payload)
	require.Equal(t, byte('{'), event.Payload[0])
	require.LessOrEqual(t, translate.Depth(event.Payload), wire.MaxDepth)
	require.LessOrEqual(t, len(event.Payload), maxPayload)
	require.NotEmpty(t, event.Kind)
	require.LessOrEqual(t, len([]rune(event.Kind)), wire.MaxKind)
	require.LessOrEqual(t, len(*event.ClientEventID), wire.MaxID)
	require.NotContains(t, event.Kind+*event.ClientEventID, "\x00")
	if event.TurnID != nil {
		require.LessOrEqual(t, len(*event.TurnID), wire.MaxID)
		require.NotContains(t, *event.TurnID, "\x00")
	}
}

// shown is one line for each event.
func shown(all []Step) string {
	var out strings.Builder
	for _, step := range all {
		for _, event := range step.Events {
			ts, turn := "-", "-"
			if event.TS != nil {
				ts = fmt.Sprint(*event.TS)
			}
			if event.TurnID != nil {
				turn = *event.TurnID
			}
			fmt.Fprintln(&out, step.Line, *event.ClientEventID, ts, turn, event.Kind, string(event.Payload))
		}
		if step.Skipped != "" {
			fmt.Fprintln(&out, step.Line, "skipped:", step.Skipped)
		}
	}
	return out.String()
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name   string
		format Format
		id     string
		title  string
	}{
		{"claude", Claude, "sess-1", "write a greeting"},
		{"codex", Codex, "cx-1", "list files"},
		{"codex_old", Codex, "cx-old", "make a README"},
		{"acp", ACP, "acp-1", "write it [image image/png]"},
		{"acp_wrapped", ACP, "acp-2", "from before"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(filepath.Join("testdata", one.name+".jsonl"))
			require.NoError(t, err)
			survey, all := read(t, content, "")
			require.Equal(t, one.format, survey.Format)
			require.Equal(t, one.id, survey.ID)
			require.Equal(t, one.title, survey.Title)
			golden := filepath.Join("testdata", one.name+".events")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(shown(all)), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), shown(all))
			_, again := read(t, content, survey.Format)
			require.Equal(t, all, again, "the same lines give the same events")
		})
	}
}
