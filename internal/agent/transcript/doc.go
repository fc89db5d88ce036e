// Package transcript reads what coding agents wrote down about their sessions and makes events of the trace
// vocabulary of it (shared sessions specification, section 8), and sends them into a session.
//
// Formats. Claude Code's JSONL, Codex's rollout JSONL (with and without the envelope around its items), and
// recordings of the Agent Client Protocol: JSON-RPC messages of both directions, one a line. Survey tells them
// apart by content.
//
// Contract. The events of a file are a function of its lines: the same lines give the same events, with the same
// client_event_ids, in the same order, so that an import can be repeated, continued after a crash, and continued
// when the file has grown. Within one file no two events have the same id. A line that is no JSON object is
// skipped with its number and a reason; a record that is not understood is kept whole as an opaque event
// (kind import:<tool>:<type>); nothing is dropped in silence. Every payload is valid JSON that a server takes:
// what is larger than that is cut, marked as truncated and counted.
//
// Memory. A Reader holds one line (at most MaxLine bytes; a longer one is passed over without being held), a
// bounded state of the turn, and some thirty bytes for each record that has an id, to notice ids that come twice.
//
// Blocking and concurrency. Survey and Reader block on their io.Reader only. An Import blocks on the network as a
// client.Executor does. Each is used by one goroutine; several Imports may run at once.
package transcript

// Format is a kind of transcript.
type Format string

// The formats.
const (
	Claude Format = "claude" // Claude Code, ~/.claude/projects/…/*.jsonl
	Codex  Format = "codex"  // Codex CLI, ~/.codex/sessions/…/rollout-*.jsonl
	ACP    Format = "acp"    // a recording of the Agent Client Protocol
)

// Formats lists the formats.
func Formats() []Format { return []Format{Claude, Codex, ACP} }
