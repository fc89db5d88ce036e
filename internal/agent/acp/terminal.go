package acp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// defaultOutput is how much of a command's output is kept, and the most that may be asked for.
const defaultOutput = 1 << 20

// terminal is one command. Its stdout and stderr are one stream, its stdin is empty.
type terminal struct {
	command *exec.Cmd
	group   *group
	printed *source
	ended   chan struct{} // closed when the command has ended and its own output was read
	quiet   chan struct{} // closed when nobody can print any more

	mu        sync.Mutex // guards what follows
	limit     int
	kept      []byte // at most twice limit
	truncated bool
}

// startTerminal starts a command; its goroutines are counted.
func startTerminal(command *exec.Cmd, limit int, count *sync.WaitGroup) (*terminal, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	command.Stdout, command.Stderr = theirs, theirs
	t := &terminal{command: command, printed: &source{file: ours}, ended: make(chan struct{}), quiet: make(chan struct{}), limit: limit}
	t.group, err = startGroup(command)
	if err := errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	count.Go(func() {
		defer close(t.quiet)
		t.keep()
	})
	count.Go(func() {
		defer close(t.ended)
		_ = command.Wait() // the state says it all
		t.group.leaderEnded()
		select {
		case <-t.quiet:
		case <-time.After(settleLimit):
		}
	})
	return t, nil
}

// settleLimit is how long the output of a command that has ended is waited for, when what it started and left
// behind still holds it. That is read on, until the terminal is released.
const settleLimit = 200 * time.Millisecond

// keep reads what the command prints.
func (t *terminal) keep() {
	defer t.printed.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := t.printed.Read(buffer)
		t.add(buffer[:n])
		if err != nil {
			return
		}
	}
}

func (t *terminal) add(text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if len(t.kept) > 2*t.limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
		t.truncated = true
	}
}

// read answers the end of what was printed, at most limit bytes of whole characters, whether its beginning is
// missing, and whether the command has ended.
func (t *terminal) read() (text string, truncated, ended bool) {
	select {
	case <-t.ended:
		ended = true
	default:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept
	if len(kept) > t.limit {
		kept = kept[len(kept)-t.limit:]
	}
	truncated = t.truncated || len(kept) < len(t.kept)
	if truncated {
		kept = fromCharacter(kept)
	}
	if !ended {
		kept = wholeCharacters(kept)
	}
	return strings.ToValidUTF8(string(kept), "\uFFFD"), truncated, ended
}

// fromCharacter leaves out the rest of a character that was cut in two.
func fromCharacter(text []byte) []byte {
	for i := range min(len(text), utf8.UTFMax) {
		if utf8.RuneStart(text[i]) {
			return text[i:]
		}
	}
	return text
}

// wholeCharacters leaves out the beginning of a character whose rest is still to come.
func wholeCharacters(text []byte) []byte {
	for back := 1; back <= min(len(text), utf8.UTFMax-1); back++ {
		start := len(text) - back
		if utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				return text[:start]
			}
			break
		}
	}
	return text
}

// close ends the command and all it started, and waits for it.
func (t *terminal) close() {
	t.group.kill()
	t.printed.end()
	<-t.ended
	<-t.quiet
	t.group.close()
}

// memory is what is kept of it after its release.
func (t *terminal) memory(id string) memory {
	text, truncated, _ := t.read()
	left := memory{id: id, output: text, truncated: truncated}
	if extra := len(text) - rememberedOutput; extra > 0 {
		left.output, left.truncated = string(fromCharacter([]byte(text[extra:]))), true
	}
	left.exit, _ = exitOf(t.command.ProcessState)
	return left
}
