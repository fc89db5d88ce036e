package view

import (
	"fmt"
	"io"
	"strings"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Control sequences of terminals (ECMA-48, and the private modes of xterm).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	beginFrame  = "\x1b[?2026h\x1b[H"
	endFrame    = "\x1b[J\x1b[?2026l"
	clearLine   = "\x1b[K"
)

// Terminal draws pictures in place, on a screen of its own beside what was on the terminal before.
type Terminal struct {
	to    io.Writer
	shown string
}

// Enter takes the terminal over until Leave.
func Enter(to io.Writer) (*Terminal, error) {
	if _, err := io.WriteString(to, enterScreen); err != nil {
		return nil, fmt.Errorf("draw on the terminal: %w", err)
	}
	return &Terminal{to: to}, nil
}

// Draw shows lines instead of what was shown before, at once.
func (t *Terminal) Draw(lines []string) error {
	picture := beginFrame + strings.Join(lines, clearLine+"\r\n") + clearLine + endFrame
	if picture == t.shown {
		return nil
	}
	t.shown = picture
	if _, err := io.WriteString(t.to, picture); err != nil {
		return fmt.Errorf("draw on the terminal: %w", err)
	}
	return nil
}

// Leave gives the terminal back as it was.
func (t *Terminal) Leave() error {
	if _, err := io.WriteString(t.to, leaveScreen); err != nil {
		return fmt.Errorf("leave the terminal: %w", err)
	}
	return nil
}

// Plain answers an event in one line.
func (s *Scene) Plain(event wire.Event) string { return s.line(entry{event: &event}) }

// PlainNote answers a note in one line.
func (s *Scene) PlainNote(text string) string { return s.line(entry{note: text}) }
