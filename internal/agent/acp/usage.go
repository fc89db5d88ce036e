package acp

import (
	"encoding/json"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// usageOf is what a prompt cost: the protocol's own field, else what Gemini puts into _meta, else nil.
func usageOf(answer acpsdk.PromptResponse) *trace.Usage {
	if u := answer.Usage; u != nil {
		usage := &trace.Usage{PromptTokens: int64(u.InputTokens), CompletionTokens: int64(u.OutputTokens)}
		if u.CachedReadTokens != nil {
			cached := int64(*u.CachedReadTokens)
			usage.CachedTokens = &cached
		}
		return usage
	}
	raw, err := json.Marshal(answer.Meta)
	if err != nil {
		return nil
	}
	var meta struct {
		Quota struct {
			Count *struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"token_count"`
		} `json:"quota"`
	}
	if json.Unmarshal(raw, &meta) != nil || meta.Quota.Count == nil {
		return nil
	}
	return &trace.Usage{PromptTokens: meta.Quota.Count.Input, CompletionTokens: meta.Quota.Count.Output}
}
