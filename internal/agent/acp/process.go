package acp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// secrets never reach an agent: it could act in its user's name.
var secrets = []string{"CAIRN_API_KEY", "CAIRN_SHARE_TOKEN"}

// cleanEnviron is an environment without this program's secrets.
func cleanEnviron(environ []string) []string {
	clean := make([]string, 0, len(environ))
next:
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		for _, secret := range secrets {
			if strings.EqualFold(name, secret) { // Windows does not tell letters' cases apart
				continue next
			}
		}
		clean = append(clean, entry)
	}
	return clean
}

// process is the agent's process with our ends of its pipes.
type process struct {
	command    *exec.Cmd
	group      *group
	stdin      *os.File
	stdout     *source
	stderr     *source
	exited     chan struct{} // closed when the process has ended
	complained chan struct{} // closed when its stderr has ended

	mu    sync.Mutex // guards what follows, and keeps writers to out apart
	out   io.Writer
	last  []byte // of stderr, at most tailLimit
	ended *os.ProcessState
}

// tailLimit is how much of stderr is kept for errors.
const tailLimit = 4 << 10

// drainLimit is how long a pipe of a process that has ended is waited for, when something else still holds it.
const drainLimit = time.Second

func spawn(o Options, environ []string) (*process, error) {
	p := &process{exited: make(chan struct{}), complained: make(chan struct{}), out: o.Stderr}
	p.command = exec.Command(o.Command[0], o.Command[1:]...) //nolint:gosec,noctx // the user names the agent; Stop ends it
	p.command.Dir, p.command.Env = o.Root, environ
	theirs, err := p.pipes()
	if err == nil {
		p.group, err = startGroup(p.command)
	}
	for _, file := range theirs {
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start agent %s: %w", o.Command[0], err)
	}
	return p, nil
}

// pipes makes the three pipes and answers the agent's ends.
func (p *process) pipes() (theirs []*os.File, err error) {
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.command.Stdin, p.stdin, theirs = in, ours, append(theirs, in)
	for _, end := range []struct {
		theirs *io.Writer
		ours   **source
	}{{&p.command.Stdout, &p.stdout}, {&p.command.Stderr, &p.stderr}} {
		ours, out, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("make a pipe: %w", err)
		}
		*end.ours, *end.theirs, theirs = &source{file: ours}, out, append(theirs, out)
	}
	return theirs, nil
}

func (p *process) close() {
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	for _, s := range []*source{p.stdout, p.stderr} {
		if s != nil {
			s.close()
		}
	}
}

// wait returns when the process has ended; what is left of its group is killed, so that its pipes end too.
func (p *process) wait() {
	_ = p.command.Wait() // the state says it all
	p.mu.Lock()
	p.ended = p.command.ProcessState
	p.mu.Unlock()
	close(p.exited)
	p.group.kill()
	p.stdout.end()
	p.stderr.end()
}

// endsWithin waits for the end of the process and says whether it came.
func (p *process) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

func (p *process) state() *os.ProcessState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// terminate asks the group to end, where the system has a way to ask.
func (p *process) terminate() { p.group.terminate() }

func (p *process) kill() { p.group.kill() }

// relay copies stderr to where it shall go and keeps its end.
func (p *process) relay(touch func()) {
	defer close(p.complained)
	defer p.stderr.close()
	buffer := make([]byte, 8<<10)
	for {
		n, err := p.stderr.Read(buffer)
		if n > 0 {
			touch()
			p.note(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// note keeps and passes on what is no message.
func (p *process) note(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, text...)
	if extra := len(p.last) - tailLimit; extra > 0 {
		p.last = append(p.last[:0], p.last[extra:]...)
	}
	_, _ = p.out.Write(text) // a reader that went away is no fault of the agent
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ToValidUTF8(string(p.last), "\uFFFD")
}

// source is our end of a pipe that a process writes to. When the process has ended, reading goes on for what is
// left in the pipe, but no further than a pipe can hold and no longer than drainLimit for more: another process
// may hold the other end, or write to it, forever.
type source struct {
	file *os.File

	mu    sync.Mutex // guards what follows, together with the deadline
	ended bool
	left  int // bytes that may be read yet, once ended
}

// pipeLimit is the most that a pipe holds.
const pipeLimit = 1 << 20

// Read is one read; the end of the process is io.EOF once the pipe is empty.
func (s *source) Read(buffer []byte) (int, error) {
	left, ended := s.hurry()
	if !ended {
		n, err := s.file.Read(buffer)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err //nolint:wrapcheck // a reader answers io.EOF as it is
		}
		left, _ = s.hurry()
	}
	if left <= 0 {
		return 0, io.EOF
	}
	timer := time.AfterFunc(drainLimit, s.interrupt)
	defer timer.Stop()
	n, err := s.file.Read(buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left -= n
	return n, err
}

// hurry says whether the process has ended and how much may be read yet, and lets the next read wait again.
func (s *source) hurry() (left int, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = s.file.SetReadDeadline(time.Time{}) // without deadlines the pipe ends with its group
	}
	return s.left, s.ended
}

// end says that the process has ended.
func (s *source) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended, s.left = true, pipeLimit
		s.interrupt()
	}
}

// close is for who read it to its end.
func (s *source) close() { _ = s.file.Close() }

// interrupt ends a read that waits. The moment is any in the past.
func (s *source) interrupt() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }
