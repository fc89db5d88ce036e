package acp

import (
	"encoding/json"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"
)

// What agents answer, as it was seen.
func TestRefusals(t *testing.T) {
	t.Parallel()
	agent := &Agent{o: Options{Command: []string{"/bin/agent"}}}
	for answer, want := range map[string]string{
		`{"code":-32603,"message":"Internal error","data":{"details":"Query closed before response received"}}`: "make: agent refused: " +
			"Internal error: Query closed before response received (code -32603)",
		`{"code":-32602,"message":"Invalid params","data":{"error":"no such session"}}`: "make: agent refused: " +
			"Invalid params: no such session (code -32602)",
		`{"code":-32603,"message":"Internal error","data":"why"}`: "make: agent refused: Internal error: why (code -32603)",
		`{"code":-32603,"message":"Internal error","data":[1]}`:   "make: agent refused: Internal error (code -32603)",
		`{"code":-1,"message":"","data":{"message":"only here"}}`: "make: agent refused: only here (code -1)",
		`{"code":-32000,"message":"Authentication required"}`:     "agent asks to be logged in first: start it by itself and log in",
		`{"code":-32000,"message":"Gemini API key is missing or not configured."}`: "agent asks to be logged in first: start it by itself and log in; " +
			"it says: Gemini API key is missing or not configured.",
	} {
		var refusal acpsdk.RequestError
		require.NoError(t, json.Unmarshal([]byte(answer), &refusal))
		require.EqualError(t, agent.said("make", &refusal), want)
	}
}
