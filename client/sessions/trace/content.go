package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The types of content that are known.
const (
	ContentText     = "text"
	ContentDiff     = "diff"
	ContentTerminal = "terminal"
)

// Content is one piece of a tool's result: an object with a type. Its other fields depend on the type and are
// kept as they came, so that a viewer can pass on what it does not know.
type Content struct {
	Type string
	Raw  json.RawMessage // the whole object
}

// TextContent is plain text.
func TextContent(text string) Content {
	return content(ContentText, struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{ContentText, text})
}

// DiffContent is a change of a file; oldText is nil for a new one.
func DiffContent(path string, oldText *string, newText string) Content {
	return content(ContentDiff, struct {
		Type    string  `json:"type"`
		Path    string  `json:"path"`
		OldText *string `json:"old_text"`
		NewText string  `json:"new_text"`
	}{ContentDiff, path, oldText, newText})
}

// TerminalContent is what a command printed; exitCode is nil while it runs or when it was killed.
func TerminalContent(output string, exitCode *int) Content {
	return content(ContentTerminal, struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ExitCode *int   `json:"exit_code,omitempty"`
	}{ContentTerminal, output, exitCode})
}

func content(name string, fields any) Content {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		panic(err) // strings and numbers always encode
	}
	return Content{Type: name, Raw: bytes.TrimRight(buffer.Bytes(), "\n")}
}

// Text answers the text of text and terminal content, or "".
func (c Content) Text() string {
	var fields struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(c.Raw, &fields) != nil {
		return ""
	}
	return fields.Text
}

// MarshalJSON writes the object as it is.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Raw == nil {
		return []byte("null"), nil
	}
	return c.Raw, nil
}

// UnmarshalJSON keeps the object and reads its type.
func (c *Content) UnmarshalJSON(data []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("read type of content: %w", err)
	}
	c.Type, c.Raw = head.Type, bytes.Clone(data)
	return nil
}
