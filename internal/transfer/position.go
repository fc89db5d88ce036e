package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cairnsync/cairn/internal/filelock"
)

// position remembers how far a run came, so that the next one need not read and send all of it again. What
// it says is applied is applied: it moves only when nothing waits. Losing it costs time and nothing else.
type position struct {
	path string
	lock *os.File
	// Of is the import the position belongs to: another one begins at the beginning.
	Of string `json:"of"`
	// At is a place of the export: a channel and day, or a line.
	At   string `json:"at,omitempty"`
	Line int64  `json:"line,omitempty"`
}

// openPosition reads a position file; an empty path is a position that nobody remembers.
func openPosition(path, of string) (*position, error) {
	p := &position{path: path, Of: of}
	if path == "" {
		return p, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the position file: %w", err)
	}
	lock, err := filelock.Take(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("another run uses the position file %s: %w", path, err)
	}
	p.lock = lock
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("read position file: %w", err)
	}
	var stored position
	if json.Unmarshal(text, &stored) == nil && stored.Of == of {
		p.At, p.Line = stored.At, stored.Line
	}
	return p, nil
}

func (p *position) close() { filelock.Release(p.lock) }

// move remembers a place, by replacing the file.
func (p *position) move(at string, line int64) error {
	p.At, p.Line = at, line
	if p.path == "" {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode position: %w", err)
	}
	draft := p.path + ".new"
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return fmt.Errorf("write position file: %w", err)
	}
	if err := os.Rename(draft, p.path); err != nil {
		return fmt.Errorf("write position file: %w", err)
	}
	return nil
}

// remove forgets the position of a run that came to its end.
func (p *position) remove() error {
	if p.path == "" {
		return nil
	}
	if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove position file: %w", err)
	}
	return nil
}
