package workspace

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/cli/render"
)

// Styles of a terminal (ECMA-48).
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// whoWidth is how wide the column is that says who acts.
const whoWidth = 17

func (s *stage) styled(style, text string) string {
	if !s.Color {
		return text
	}
	return style + text + plain
}

func (s *stage) print(lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(s.Out, line); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

func (s *stage) title() string {
	return s.styled(bold, "cairn demo workspace") + s.styled(dim, "   "+s.engine()+" · five people on seven devices")
}

func (s *stage) engine() string {
	if strings.HasPrefix(s.database, "sqlite:") {
		return "SQLite"
	}
	return "PostgreSQL"
}

// say prints what somebody did, with the time since the beginning.
func (s *stage) say(who, format string, args ...any) error {
	since := s.Env.Now().Sub(s.started).Round(10 * time.Millisecond).Seconds()
	who = fmt.Sprintf("%-*s", whoWidth, who)
	return s.print(s.styled(dim, fmt.Sprintf("%6.2fs", since)) + "  " + who + render.Clean(fmt.Sprintf(format, args...)))
}
