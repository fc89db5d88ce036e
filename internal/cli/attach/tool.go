package attach

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/client/sessions/trace"
)

// tool is a tool call as far as it is known.
type tool struct {
	id, name, title string // fit to print
	args            string // fit to print, several lines
	brief           string // the arguments in one line
	status          trace.ToolStatus
	ended           bool
	content         []trace.Content
	truncated       bool
}

func newTool(id, name, title string) *tool {
	return &tool{id: id, name: oneLine(short(name, 80)), title: oneLine(short(title, 300))}
}

func (t *tool) call(name string, args json.RawMessage) {
	if t.name == "" {
		t.name = oneLine(short(name, 80))
	}
	text := string(args[:min(len(args), maxToolBytes)])
	t.brief = oneLine(short(text, 200))
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(text), "", "  ") == nil {
		text = pretty.String()
	}
	if text == "null" || text == "{}" {
		text, t.brief = "", ""
	}
	t.args = manyLines(text)
}

func (t *tool) result(p trace.ToolResult) {
	t.ended, t.status, t.content, t.truncated = true, p.Status, p.Content, p.Truncated
}

// look answers the mark and style of how it stands.
func (t *tool) look() (string, style) {
	switch {
	case !t.ended:
		return "…", yellow
	case t.status == trace.ToolError:
		return "✗", red
	case t.status == trace.ToolCancelled:
		return "–", yellow
	default:
		return "✓", cyan
	}
}

func (t *tool) rows(room int, open, selected bool) []row {
	mark, look := t.look()
	arrow := "▸"
	if open {
		arrow = "▾"
	}
	name := t.title
	if !strings.Contains(strings.ToLower(name), strings.ToLower(t.name)) {
		name = strings.TrimSpace(t.name + " " + name)
	}
	if name == "" {
		name = "tool"
	}
	detail := t.summary()
	if t.title == "" && t.brief != "" {
		detail = strings.TrimSpace(t.brief + " " + detail)
	}
	nameStyle := plain
	if selected {
		nameStyle = invert
	}
	head := row{{look, mark + " " + arrow + " "}}
	left := room - head.columns()
	name = fit(name, left)
	head = append(head, span{nameStyle, name})
	if left -= columns(name) + 2; left > 4 && detail != "" {
		head = append(head, span{faint, "  " + fit(detail, left)})
	}
	if !open {
		return []row{head}
	}
	return append([]row{head}, t.body(room)...)
}

// summary says in a few words what came of it.
func (t *tool) summary() string {
	var parts []string
	for _, content := range t.content[:min(len(t.content), 4)] {
		switch content.Type {
		case trace.ContentDiff:
			d := readDiff(content)
			parts = append(parts, fmt.Sprintf("%s +%d −%d", d.path, len(d.added), len(d.removed)))
		case trace.ContentTerminal:
			parts = append(parts, "$ "+lastLine(content.Text())+exitText(content))
		case trace.ContentText:
			parts = append(parts, firstLine(content.Text()))
		default:
			parts = append(parts, oneLine(short(content.Type, 40)))
		}
	}
	if len(t.content) > 4 {
		parts = append(parts, fmt.Sprintf("and %d more", len(t.content)-4))
	}
	return strings.Join(parts, " · ")
}

func firstLine(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(short(text, 400)), "\n")
	if more {
		line += " …"
	}
	return oneLine(line)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text[max(0, len(text)-400):])
	return oneLine(text[strings.LastIndexByte(text, '\n')+1:])
}

func exitText(content trace.Content) string {
	var fields struct {
		ExitCode *int `json:"exit_code"`
	}
	if json.Unmarshal(content.Raw, &fields) != nil || fields.ExitCode == nil || *fields.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf(" (exit %d)", *fields.ExitCode)
}

// body answers everything of a tool call, below its line.
func (t *tool) body(room int) []row {
	const indent = "    "
	room = max(2, room-len(indent))
	var rows []row
	put := func(in style, text string) {
		for _, line := range wrap(text, room) {
			rows = append(rows, row{{plain, indent}, {in, line}})
		}
	}
	if t.args != "" {
		put(faint, t.args)
	}
	for _, content := range t.content {
		if len(rows) > maxToolRows {
			break
		}
		t.put(content, put)
	}
	if len(rows) > maxToolRows {
		rows = append(rows[:maxToolRows:maxToolRows], row{{faint, fit(indent+"… more; `cairn session tail` has all of it", room)}})
	}
	if t.truncated {
		put(faint, "(the agent sent only a part of it)")
	}
	if len(rows) == 0 {
		put(faint, "(nothing more is known)")
	}
	return rows
}

func (t *tool) put(content trace.Content, put func(style, string)) {
	switch content.Type {
	case trace.ContentText:
		put(plain, bounded(content.Text()))
	case trace.ContentTerminal:
		put(plain, "$ "+bounded(content.Text())+exitText(content))
	case trace.ContentDiff:
		readDiff(content).put(put)
	default:
		put(faint, bounded(string(content.Raw)))
	}
}

// bounded makes a long text fit to print, and says when it is not all of it.
func bounded(text string) string {
	if len(text) <= maxToolBytes {
		return manyLines(text)
	}
	return manyLines(strings.ToValidUTF8(text[:maxToolBytes], "")) + "\n…"
}

// diff is a change of a file: what stands between the lines that both versions begin and end with.
type diff struct {
	path           string
	before, after  []string // up to 3 lines around it
	added, removed []string
}

func readDiff(content trace.Content) *diff {
	var fields struct {
		Path string  `json:"path"`
		Old  *string `json:"old_text"`
		New  string  `json:"new_text"`
	}
	if json.Unmarshal(content.Raw, &fields) != nil {
		return &diff{path: "?"}
	}
	d := &diff{path: oneLine(short(fields.Path, 200))}
	var old []string
	if fields.Old != nil {
		old = lines(*fields.Old)
	}
	d.between(old, lines(fields.New))
	return d
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func (d *diff) between(from, to []string) {
	const around = 3
	head := 0
	for head < len(from) && head < len(to) && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < len(from)-head && tail < len(to)-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	d.before = to[max(0, head-around):head]
	d.removed, d.added = from[head:len(from)-tail], to[head:len(to)-tail]
	d.after = to[len(to)-tail : min(len(to), len(to)-tail+around)]
}

func (d *diff) put(put func(style, string)) {
	put(bold, d.path)
	for _, part := range []struct {
		in    style
		mark  string
		lines []string
	}{{faint, "  ", d.before}, {red, "- ", d.removed}, {green, "+ ", d.added}, {faint, "  ", d.after}} {
		for i, line := range part.lines {
			if i >= maxToolRows/2 {
				put(faint, fmt.Sprintf("  … %d more lines", len(part.lines)-i))
				break
			}
			put(part.in, part.mark+manyLines(short(line, 2000)))
		}
	}
}

func plural(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}
