package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// part is one piece of a tool's content. A terminal is only named: what it printed is looked up at the end.
type part struct {
	text     string
	diff     bool
	path     string
	old      *string
	terminal string
}

// partCost is what a part costs besides its text, so that many empty ones are bounded too.
const partCost = 64

// parts keeps of a tool's content what a result may have, and says whether there was more.
func parts(content []acpsdk.ToolCallContent) (kept []part, cut bool) {
	left := MaxResult
	for _, c := range content {
		if left < partCost {
			return kept, true
		}
		left -= partCost
		var p part
		switch {
		case c.Diff != nil:
			p = part{diff: true, path: title(c.Diff.Path)}
			space := left
			if c.Diff.OldText != nil {
				space /= 2 // a diff that is cut shows the beginning of both
				old := head(valid(*c.Diff.OldText), space)
				p.old = &old
				cut = cut || len(old) < len(*c.Diff.OldText)
				left -= len(old)
			}
			p.text = head(valid(c.Diff.NewText), space)
			cut = cut || len(p.text) < len(c.Diff.NewText)
		case c.Terminal != nil:
			p = part{terminal: c.Terminal.TerminalId}
		case c.Content != nil:
			text := blockText(c.Content.Content)
			p = part{text: head(text, left)}
			cut = cut || len(p.text) < len(text)
		default:
			continue
		}
		left -= len(p.text)
		kept = append(kept, p)
	}
	return kept, cut
}

// result makes the content of a tool's result: what it said, else its raw output.
func (t *Translator) result(call *tool) (content []trace.Content, cut bool) {
	content, cut, left := []trace.Content{}, call.cut, MaxResult
	for _, p := range call.content {
		left -= len(p.text)
	}
	for _, p := range call.content {
		switch {
		case p.diff:
			content = append(content, trace.DiffContent(p.path, p.old, p.text))
		case p.terminal != "":
			shown, more := t.printed(p.terminal, max(left, 0))
			left -= len(shown.Raw)
			content, cut = append(content, shown), cut || more
		default:
			content = append(content, trace.TextContent(p.text))
		}
	}
	if len(content) == 0 && call.output != nil {
		content, cut = append(content, trace.TextContent(*call.output)), call.outputCut
	}
	return content, cut
}

// printed is what a terminal printed: its end, because that is where a command says how it went.
func (t *Translator) printed(id string, space int) (shown trace.Content, cut bool) {
	output, exit, truncated, ok := t.terminal(id)
	if !ok {
		return trace.TextContent("[terminal " + title(id) + "]"), false
	}
	output = valid(output)
	end := tail(output, space)
	return trace.TerminalContent(end, exit), truncated || len(end) < len(output)
}

// outputText is a raw output as text: a string is itself, anything else its JSON; nil for none.
func outputText(v any) (output *string, cut bool) {
	raw := encoded(v)
	if raw == nil {
		return nil, false
	}
	text := ""
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	text = valid(text)
	short := head(text, MaxResult)
	return &short, len(short) < len(text)
}

// blockText is a block of content as text.
func blockText(block acpsdk.ContentBlock) string {
	switch {
	case block.Text != nil:
		return valid(block.Text.Text)
	case block.Image != nil:
		return "[image " + title(block.Image.MimeType) + ", " + size(len(block.Image.Data)) + "]"
	case block.Audio != nil:
		return "[audio " + title(block.Audio.MimeType) + ", " + size(len(block.Audio.Data)) + "]"
	case block.ResourceLink != nil:
		return "[" + title(block.ResourceLink.Name) + "](" + head(valid(block.ResourceLink.Uri), 4096) + ")"
	case block.Resource != nil:
		return resourceText(block.Resource.Resource)
	default:
		return ""
	}
}

func resourceText(resource acpsdk.EmbeddedResourceResource) string {
	switch {
	case resource.TextResourceContents != nil:
		return "[" + title(resource.TextResourceContents.Uri) + "]\n" + valid(resource.TextResourceContents.Text)
	case resource.BlobResourceContents != nil:
		return "[" + title(resource.BlobResourceContents.Uri) + ", " + size(len(resource.BlobResourceContents.Blob)) + "]"
	default:
		return ""
	}
}

// size is the size of what n characters of base64 stand for.
func size(n int) string {
	n = n / 4 * 3
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000*1000:
		return fmt.Sprintf("%d kB", (n+500)/1000)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}

// maxDepth is how deep JSON of an agent may nest; the server takes 512 levels of a payload.
const maxDepth = 500

// value is any value as JSON of limit bytes at most: nil for none. One that is larger, deeper or no JSON becomes
// a string with its beginning.
func value(v any, limit int) json.RawMessage {
	raw := encoded(v)
	switch {
	case raw == nil:
		return nil
	case len(raw) > limit, Depth(raw) > maxDepth, !utf8.Valid(raw), !json.Valid(raw):
		return quote(valid(string(raw)), limit)
	default:
		return slices.Clone(raw)
	}
}

// encoded is a value as JSON, which json.RawMessage is said to be already; nil for none.
func encoded(v any) json.RawMessage {
	raw, ok := v.(json.RawMessage)
	if !ok && v != nil {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			raw = quote(valid(fmt.Sprint(v)), MaxArgs)
		}
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// quote is a text as a JSON string. Quoting may double its length, and control characters grow sixfold.
func quote(text string, limit int) json.RawMessage {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(head(text, limit)); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimRight(buffer.Bytes(), "\n")
}

// Depth is how deep the brackets of a valid JSON text nest.
func Depth(raw []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// valid is a text in valid UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// title is a text for one line: valid, short.
func title(text string) string {
	text = valid(text)
	if len(text) <= maxTitle {
		return text
	}
	return head(text, maxTitle) + "…"
}

// head is the beginning of a valid text: at most limit bytes of whole characters.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// tail is the end of a valid text: at most limit bytes of whole characters.
func tail(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	start := len(text) - limit
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

func number(n int) string { return strconv.Itoa(n) }

func equal(a, b []trace.Todo) bool { return slices.Equal(a, b) }
