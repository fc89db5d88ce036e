package transfer

import (
	"regexp"
	"strings"
)

var (
	// slackCode is what stays as it is: fenced and inline code.
	slackCode = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	// slackLink is <…>, with or without a label behind a bar.
	slackLink   = regexp.MustCompile(`<([^<>|\n]+)(?:\|([^<>\n]*))?>`)
	slackBold   = regexp.MustCompile(`(^|[\s(\[{"'.,:;!?|-])\*([^\s*](?:[^*\n]*[^\s*])?)\*($|[\s)\]}"'.,:;!?>-])`)
	slackStrike = regexp.MustCompile(`(^|[\s(\[{"'.,:;!?|-])~([^\s~](?:[^~\n]*[^\s~])?)~($|[\s)\]}"'.,:;!?>-])`)
	entities    = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// text is the text of a message in Markdown, with the names of its files.
func (s *slackRun) text(m *slackMessage) string {
	lines := []string{s.markdown(m.Text)}
	for _, file := range m.Files {
		if name := clean(firstOf(file.Name, file.Title), maxName); name != "" {
			lines = append(lines, "[file: "+name+"]")
		}
	}
	return content(strings.Join(lines, "\n"))
}

// markdown turns Slack's marks into Markdown, but for those within code.
func (s *slackRun) markdown(text string) string {
	var out strings.Builder
	last := 0
	for _, at := range slackCode.FindAllStringIndex(text, -1) {
		out.WriteString(s.marks(text[last:at[0]]))
		out.WriteString(entities.Replace(slackLink.ReplaceAllStringFunc(text[at[0]:at[1]], s.plain)))
		last = at[1]
	}
	out.WriteString(s.marks(text[last:]))
	return out.String()
}

func (s *slackRun) marks(text string) string {
	for range 2 { // neighbours share the character between them
		text = slackBold.ReplaceAllString(text, "$1**$2**$3")
		text = slackStrike.ReplaceAllString(text, "$1~~$2~~$3")
	}
	return entities.Replace(slackLink.ReplaceAllStringFunc(text, s.link))
}

// link turns what stands in angle brackets into Markdown.
func (s *slackRun) link(found string) string {
	parts := slackLink.FindStringSubmatch(found)
	to, label := parts[1], parts[2]
	if named, ok := s.named(to, label); ok {
		return named
	}
	if label == "" || label == to {
		return to
	}
	return "[" + strings.NewReplacer("[", "(", "]", ")").Replace(label) + "](" + strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29").Replace(to) + ")"
}

// plain is link for code: what it shows, without marks.
func (s *slackRun) plain(found string) string {
	parts := slackLink.FindStringSubmatch(found)
	if named, ok := s.named(parts[1], parts[2]); ok {
		return named
	}
	return firstOf(parts[2], parts[1])
}

// named is a person, a channel, a group or everybody, as people write them.
func (s *slackRun) named(to, label string) (string, bool) {
	switch {
	case strings.HasPrefix(to, "@"):
		return "@" + firstOf(s.people[to[1:]].name, strings.TrimPrefix(label, "@"), to[1:]), true
	case strings.HasPrefix(to, "#"):
		return "#" + firstOf(label, s.channels[to[1:]], to[1:]), true
	case strings.HasPrefix(to, "!"):
		command, _, _ := strings.Cut(to[1:], "^")
		return "@" + firstOf(strings.TrimPrefix(label, "@"), command), true
	default:
		return "", false
	}
}
