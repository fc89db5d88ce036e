package acp

import (
	"encoding/json"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   *trace.Usage
	}{
		"none":  {`{"stopReason":"end_turn"}`, nil},
		"plain": {`{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`, &trace.Usage{PromptTokens: 1, CompletionTokens: 2}},
		"cache apart from the input": {
			`{"usage":{"inputTokens":1,"outputTokens":2,"cachedReadTokens":10,"cachedWriteTokens":20,"totalTokens":33}}`,
			&trace.Usage{PromptTokens: 31, CompletionTokens: 2, CachedTokens: new(int64(10))},
		},
		"cache within the input": {
			`{"usage":{"inputTokens":11,"outputTokens":2,"cachedReadTokens":10,"totalTokens":13}}`,
			&trace.Usage{PromptTokens: 11, CompletionTokens: 2, CachedTokens: new(int64(10))},
		},
		"thoughts apart from the output": {
			`{"usage":{"inputTokens":1,"outputTokens":2,"thoughtTokens":4,"totalTokens":7}}`,
			&trace.Usage{PromptTokens: 1, CompletionTokens: 6},
		},
		"thoughts within the output": {
			`{"usage":{"inputTokens":1,"outputTokens":6,"thoughtTokens":4,"totalTokens":7}}`,
			&trace.Usage{PromptTokens: 1, CompletionTokens: 6},
		},
		"a total that says nothing": {
			`{"usage":{"inputTokens":1,"outputTokens":2,"cachedReadTokens":10,"totalTokens":0}}`,
			&trace.Usage{PromptTokens: 1, CompletionTokens: 2, CachedTokens: new(int64(10))},
		},
		"as Gemini tells it": {
			`{"_meta":{"quota":{"token_count":{"input_tokens":5,"output_tokens":6},"model_usage":[]}}}`,
			&trace.Usage{PromptTokens: 5, CompletionTokens: 6},
		},
		"other _meta": {`{"_meta":{"quota":7}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answer acpsdk.PromptResponse
			require.NoError(t, json.Unmarshal([]byte(c.answer), &answer))
			require.Equal(t, c.want, usageOf(answer))
		})
	}
}
