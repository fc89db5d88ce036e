package acp

import (
	"encoding/json"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// usageOf is what a prompt cost: the protocol's own field, else what Gemini puts into _meta, else nil.
func usageOf(answer acpsdk.PromptResponse) *trace.Usage {
	if answer.Usage != nil {
		return promptUsage(*answer.Usage)
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

// promptUsage counts what came from a cache as prompt tokens, as the trace does. Agents differ in whether their
// input tokens contain it, and their output tokens the thoughts; their total tells.
func promptUsage(u acpsdk.Usage) *trace.Usage {
	number := func(n *int) int {
		if n == nil {
			return 0
		}
		return *n
	}
	cached, thoughts := number(u.CachedReadTokens)+number(u.CachedWriteTokens), number(u.ThoughtTokens)
	in, out := u.InputTokens, u.OutputTokens
	if apart := u.TotalTokens - in - out; apart == cached || apart == cached+thoughts {
		in += cached
		if apart > cached {
			out += thoughts
		}
	}
	usage := &trace.Usage{PromptTokens: int64(in), CompletionTokens: int64(out)}
	if u.CachedReadTokens != nil {
		read := int64(*u.CachedReadTokens)
		usage.CachedTokens = &read
	}
	return usage
}
