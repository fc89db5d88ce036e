package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	endWithin     = 5 * time.Second // of a process whose input ended; then it is killed
	maxReport     = 1 << 20         // bytes of one report
	maxComplaint  = 4 << 10         // bytes of standard error that are kept
	heardCapacity = 256
)

// heard is what a process said, or how it ended.
type heard struct {
	from   *process
	report report
	ended  bool
	err    error // with ended
}

// process is a part that runs as a process of its own.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	errs *tail
	done chan struct{} // closed when it has ended
}

// crew is every process of a demonstration. It belongs to one goroutine.
type crew struct {
	program string
	environ []string // of every process; nothing in it is about cairn
	heard   chan heard
	quit    chan struct{} // closed when nobody listens to heard any more
	readers sync.WaitGroup
	all     []*process
}

func newCrew(environ []string) (*crew, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return &crew{program: program, environ: foreign(environ), heard: make(chan heard, heardCapacity), quit: make(chan struct{})}, nil
}

// foreign answers an environment without what configures cairn: the demonstration is the same everywhere.
func foreign(environ []string) []string {
	var kept []string
	for _, pair := range environ {
		if !strings.HasPrefix(pair, "CAIRN_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

// run runs a command of this program to its end and decodes what it printed.
func (c *crew) run(ctx context.Context, environ, args []string, into any) error {
	cmd := exec.CommandContext(ctx, c.program, args...) //nolint:gosec // this program itself
	cmd.Env = append(append([]string{}, c.environ...), environ...)
	errs := &tail{}
	cmd.Stderr = errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run cairn %s: %w%s", strings.Join(args[:2], " "), err, errs.quoted())
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("read what cairn %s printed: %w", strings.Join(args[:2], " "), err)
	}
	return nil
}

// start starts a part. What it says, and its end, arrive in heard.
func (c *crew) start(name string, environ, args []string) (*process, error) {
	cmd := exec.Command(c.program, append([]string{"demo", "play"}, args...)...) //nolint:gosec,noctx // ended by end
	cmd.Env = append(append([]string{}, c.environ...), environ...)
	p := &process{name: name, cmd: cmd, errs: &tail{}, done: make(chan struct{})}
	cmd.Stderr = p.errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.in = in
	c.all = append(c.all, p)
	c.readers.Go(func() { c.listen(p, out) })
	return p, nil
}

// listen passes on what a process says until it has ended.
func (c *crew) listen(p *process, out io.Reader) {
	defer close(p.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		said := heard{from: p}
		if err := json.Unmarshal(lines.Bytes(), &said.report); err != nil {
			continue // not a report: a runtime's last words go to standard error
		}
		c.pass(said)
	}
	_, _ = io.Copy(io.Discard, out) // or it could wait for us to read
	err := p.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w%s", p.name, err, p.errs.quoted())
	}
	c.pass(heard{from: p, ended: true, err: err})
}

func (c *crew) pass(said heard) {
	select {
	case c.heard <- said:
	case <-c.quit:
	}
}

// tell gives an order to a part. One that has ended hears nothing, and its end was heard.
func (p *process) tell(given order) {
	line, err := json.Marshal(given)
	if err == nil {
		_, _ = p.in.Write(append(line, '\n'))
	}
}

// end ends every process and waits: first the clients, together, then the server, which was started first.
func (c *crew) end() {
	close(c.quit)
	if len(c.all) > 0 {
		leave(c.all[1:])
		leave(c.all[:1])
	}
	c.readers.Wait()
}

func leave(some []*process) {
	for _, p := range some {
		_ = p.in.Close() // which tells it to
	}
	for _, p := range some {
		p.await()
	}
}

// await waits for the end, and forces it after some time.
func (p *process) await() {
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill() // fails only when it has ended
		<-p.done
	}
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex // guards kept
	kept []byte
}

// Write keeps the end.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if extra := len(t.kept) - maxComplaint; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(text), nil
}

// quoted answers what was kept, to be put behind a message.
func (t *tail) quoted() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.kept)
	if len(text) == 0 {
		return ""
	}
	return "\n  " + strings.ReplaceAll(string(text), "\n", "\n  ")
}

var errEndedEarly = errors.New("ended before it was done")
