package transcript

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	require.NoError(t, err)
	return content
}

func TestFormatsAreToldByContent(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		content string
		want    Format
	}{
		"claude, unknown types only": {`{"type":"future","sessionId":"s","uuid":"1"}`, Claude},
		"claude, a summary only":     {`{"type":"summary","summary":"x","leafUuid":"1"}`, Claude},
		"claude, after garbage":      {"garbage\n\n" + claudeLine("1", said("x")), Claude},
		"codex, cut at its head":     {`{"type":"response_item","payload":{"type":"message"}}`, Codex},
		"codex, old and bare":        {`{"type":"message","role":"user","content":[]}`, Codex},
		"codex, old, its head only":  {`{"id":"x","timestamp":"2025-06-02T03:04:05Z","instructions":null}`, Codex},
		"acp, an answer first":       {`{"jsonrpc":"2.0","id":1,"result":{}}`, ACP},
		"acp, wrapped as text":       {`{"dir":"in","data":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"}`, ACP},
		"nothing":                    {"", ""},
		"no JSON":                    {"hello\nworld\n", ""},
		"other JSON":                 {`{"level":"info","msg":"hello"}` + "\n" + `{"id":"1","timestamp":"x"}`, ""},
		"codex exec --json":          {`{"type":"thread.started","thread_id":"x"}`, ""},
		"one record among others":    {strings.Repeat(`{"a":1}`+"\n", 10) + claudeLine("1", said("x")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			survey, err := Look(bytes.NewReader([]byte(one.content)), "")
			if one.want == "" {
				require.ErrorIs(t, err, ErrUnknownFormat)
				return
			}
			require.NoError(t, err)
			require.Equal(t, one.want, survey.Format)
		})
	}
	forced, err := Look(strings.NewReader("hello"), Codex)
	require.NoError(t, err)
	require.Equal(t, Codex, forced.Format)
}

type brokenDisk struct{ *bytes.Reader }

var errDisk = errors.New("disk broke")

func (brokenDisk) Read([]byte) (int, error) { return 0, errDisk }

func TestAReadErrorIsNoEnd(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{"", Claude} {
		_, err := Look(brokenDisk{bytes.NewReader(nil)}, format)
		require.ErrorIs(t, err, errDisk)
	}
	_, err := NewReader(brokenDisk{}, Survey{Format: ACP}).Next()
	require.ErrorIs(t, err, errDisk)
}

func TestSessionKeys(t *testing.T) {
	t.Parallel()
	require.Equal(t, "import:claude:abc", sessionKey(Survey{Format: Claude, ID: "abc"}, "x/y.jsonl"))
	require.Equal(t, "import:acp:y.rec", sessionKey(Survey{Format: ACP}, "x/y.rec.jsonl"))
	require.Equal(t, "import:acp:a b", sessionKey(Survey{Format: ACP, ID: "a\x00\n b"}, "x"))
	require.Less(t, len(sessionKey(Survey{Format: ACP, ID: strings.Repeat("x", 1000)}, "x")), 256)
}
