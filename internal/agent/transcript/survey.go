package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Bounds of a survey.
const (
	surveyLines = 4000
	surveyBytes = 16 << 20
)

// ErrUnknownFormat is a file that is no transcript of a known format.
var ErrUnknownFormat = errors.New("it is no transcript of Claude Code, of Codex, or of the Agent Client Protocol")

// Survey is what the first lines of a transcript tell.
type Survey struct {
	Format  Format
	ID      string // of the session, or "" when they do not say
	Title   string // or ""
	FirstTS *int64 // the first time in it, in milliseconds since the Unix epoch
}

// Look surveys a transcript: it reads up to 4000 lines or 16 MiB. format is "" to tell by content; nothing that fits
// is ErrUnknownFormat.
func Look(in io.ReadSeeker, format Format) (Survey, error) {
	if format == "" {
		found, err := detect(in)
		if err != nil {
			return Survey{}, err
		}
		format = found
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return Survey{}, fmt.Errorf("rewind transcript: %w", err)
		}
	}
	survey := Survey{Format: format}
	reader := NewReader(io.LimitReader(in, surveyBytes), survey)
	for range surveyLines {
		step, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Survey{}, err
		}
		if survey.FirstTS == nil {
			survey.FirstTS = firstTime(step.Events)
		}
		if reader.draft.id != "" && reader.draft.prompt != "" && survey.FirstTS != nil {
			break
		}
	}
	survey.ID, survey.Title = reader.draft.id, reader.Title()
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return Survey{}, fmt.Errorf("rewind transcript: %w", err)
	}
	return survey, nil
}

func firstTime(events []wire.IncomingEvent) *int64 {
	for _, event := range events {
		if event.TS != nil {
			return event.TS
		}
	}
	return nil
}

// enough ends a detection: so many lines of one format leave no doubt.
const enough = 20

// detect tells the format by content: of the lines that are like one, most must be.
func detect(in io.Reader) (Format, error) {
	lines := newLineReader(io.LimitReader(in, surveyBytes), MaxLine)
	votes := map[Format]int{}
	records := 0
	for range surveyLines {
		line, _, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		if len(line) == 0 || wellFormed(line) != "" {
			continue
		}
		records++
		if format := classify(line, records); format != "" {
			if votes[format]++; votes[format] >= enough {
				break
			}
		}
	}
	best := Format("")
	for _, format := range Formats() {
		if votes[format] > votes[best] {
			best = format
		}
	}
	if votes[best]*4 < records || best == "" {
		return "", ErrUnknownFormat
	}
	return best, nil
}

// probe has the fields that tell the formats apart.
type probe struct {
	Type         json.RawMessage `json:"type"`
	UUID         json.RawMessage `json:"uuid"`
	SessionID    json.RawMessage `json:"sessionId"`
	LeafUUID     json.RawMessage `json:"leafUuid"`
	MessageID    json.RawMessage `json:"messageId"`
	Payload      json.RawMessage `json:"payload"`
	RecordType   json.RawMessage `json:"record_type"`
	ID           json.RawMessage `json:"id"`
	Timestamp    json.RawMessage `json:"timestamp"`
	Instructions json.RawMessage `json:"instructions"`
	Git          json.RawMessage `json:"git"`
	Role         json.RawMessage `json:"role"`
	CallID       json.RawMessage `json:"call_id"`
	Summary      json.RawMessage `json:"summary"`
}

var (
	codexEnvelopes = map[string]bool{
		"session_meta": true, "response_item": true, "event_msg": true, "turn_context": true, "compacted": true, "world_state": true,
	}
	codexItems = map[string]bool{
		"message": true, "reasoning": true, "function_call": true, "function_call_output": true, "local_shell_call": true,
		"custom_tool_call": true, "custom_tool_call_output": true, "web_search_call": true,
	}
)

// classify answers which format a record is like, or "". number counts the records from 1.
func classify(line []byte, number int) Format {
	if _, _, found := unwrap(line); found {
		return ACP
	}
	var p probe
	if json.Unmarshal(line, &p) != nil {
		return ""
	}
	kind := stringOf(p.Type)
	switch {
	case codexEnvelopes[kind] && p.Payload != nil,
		stringOf(p.RecordType) == "state",
		codexItems[kind] && (p.Role != nil || p.CallID != nil || p.Summary != nil) && p.UUID == nil,
		number == 1 && kind == "" && p.ID != nil && p.Timestamp != nil && (p.Instructions != nil || p.Git != nil):
		return Codex
	case kind != "" && p.SessionID != nil,
		kind == "summary" && p.LeafUUID != nil,
		kind == "file-history-snapshot" && p.MessageID != nil:
		return Claude
	default:
		return ""
	}
}
