package acp

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	acpsdk "github.com/coder/acp-go-sdk"
)

// The bounds of terminals.
const (
	maxTerminals     = 32        // not released
	maxRemembered    = 32        // released
	rememberedOutput = 256 << 10 // of each of those
)

// terminals are the commands that an agent runs through us.
type terminals struct {
	root    string
	environ []string
	files   *files

	mu      sync.Mutex // guards what follows
	last    int        // number of the newest
	open    map[string]*terminal
	old     []memory // released, oldest first
	closed  bool
	started sync.WaitGroup // commands that were started; added to under mu, before closed
}

// memory is what is left of a released terminal.
type memory struct {
	id        string
	output    string
	exit      *int
	truncated bool
}

func newTerminals(root string, environ []string, files *files) *terminals {
	return &terminals{root: root, environ: environ, files: files, open: make(map[string]*terminal)}
}

// create starts a command.
func (t *terminals) create(_ context.Context, p acpsdk.CreateTerminalRequest) (acpsdk.CreateTerminalResponse, error) {
	command, err := t.command(p)
	if err != nil {
		return acpsdk.CreateTerminalResponse{}, fmt.Errorf("run %s: %w", p.Command, plain(err))
	}
	limit := defaultOutput
	if p.OutputByteLimit != nil && *p.OutputByteLimit > 0 {
		limit = min(*p.OutputByteLimit, defaultOutput)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return acpsdk.CreateTerminalResponse{}, ErrStopped
	case len(t.open) >= maxTerminals:
		return acpsdk.CreateTerminalResponse{}, fmt.Errorf("run %s: %d terminals are open: release one first", p.Command, maxTerminals)
	}
	made, err := startTerminal(command, limit, &t.started)
	if err != nil {
		return acpsdk.CreateTerminalResponse{}, fmt.Errorf("run %s: %w", p.Command, plain(err))
	}
	t.last++
	id := "term-" + strconv.Itoa(t.last)
	t.open[id] = made
	return acpsdk.CreateTerminalResponse{TerminalId: id}, nil
}

func (t *terminals) command(p acpsdk.CreateTerminalRequest) (*exec.Cmd, error) {
	if p.Command == "" {
		return nil, errors.New("command is required")
	}
	folder, err := t.folder(p.Cwd)
	if err != nil {
		return nil, err
	}
	name, args := p.Command, p.Args
	if len(args) == 0 && strings.ContainsAny(name, " \t\n|&;<>()$`\"'*?") {
		if _, err := exec.LookPath(name); err != nil {
			name, args = shell(name) // some agents send a whole line
		}
	}
	command := exec.Command(name, args...) //nolint:gosec,noctx // running what the agent says is what this is for; close ends it
	command.Dir = folder
	command.Env = slices.Clone(t.environ)
	for _, variable := range p.Env {
		if variable.Name == "" || strings.ContainsAny(variable.Name, "=\x00") || strings.ContainsRune(variable.Value, 0) {
			return nil, fmt.Errorf("variable %q is no variable", variable.Name)
		}
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	return command, nil
}

// folder is where a command starts.
func (t *terminals) folder(named *string) (string, error) {
	if named == nil || *named == "" {
		return t.root, nil
	}
	inside, err := t.files.inside(*named)
	if err != nil {
		return "", err
	}
	info, err := t.files.root.Stat(inside)
	if err != nil {
		return "", fmt.Errorf("start in %s: %w", *named, plain(err))
	}
	if !info.IsDir() {
		return "", fmt.Errorf("start in %s: it is no folder", *named)
	}
	return *named, nil
}

func (t *terminals) find(id string) (*terminal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found, ok := t.open[id]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("there is no terminal %q", id)
}

// output answers what a command printed so far.
func (t *terminals) output(_ context.Context, p acpsdk.TerminalOutputRequest) (acpsdk.TerminalOutputResponse, error) {
	found, err := t.find(p.TerminalId)
	if err != nil {
		return acpsdk.TerminalOutputResponse{}, err
	}
	text, truncated, ended := found.read()
	answer := acpsdk.TerminalOutputResponse{Output: text, Truncated: truncated}
	if ended {
		code, signal := exitOf(found.command.ProcessState)
		answer.ExitStatus = &acpsdk.TerminalExitStatus{ExitCode: code, Signal: signal}
	}
	return answer, nil
}

// waitForExit answers when a command has ended.
func (t *terminals) waitForExit(ctx context.Context, p acpsdk.WaitForTerminalExitRequest) (acpsdk.WaitForTerminalExitResponse, error) {
	found, err := t.find(p.TerminalId)
	if err != nil {
		return acpsdk.WaitForTerminalExitResponse{}, err
	}
	select {
	case <-found.ended:
		code, signal := exitOf(found.command.ProcessState)
		return acpsdk.WaitForTerminalExitResponse{ExitCode: code, Signal: signal}, nil
	case <-ctx.Done():
		return acpsdk.WaitForTerminalExitResponse{}, ctx.Err()
	}
}

// kill ends a command and all it started; its output stays.
func (t *terminals) kill(_ context.Context, p acpsdk.KillTerminalRequest) (acpsdk.KillTerminalResponse, error) {
	found, err := t.find(p.TerminalId)
	if err != nil {
		return acpsdk.KillTerminalResponse{}, err
	}
	found.group.kill()
	return acpsdk.KillTerminalResponse{}, nil
}

// release ends a command and forgets the terminal, all but its end for recall.
func (t *terminals) release(_ context.Context, p acpsdk.ReleaseTerminalRequest) (acpsdk.ReleaseTerminalResponse, error) {
	found, err := t.find(p.TerminalId)
	if err != nil {
		return acpsdk.ReleaseTerminalResponse{}, err
	}
	found.close()
	left := found.memory(p.TerminalId)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.open[p.TerminalId]; ok {
		delete(t.open, p.TerminalId)
		t.old = append(t.old[max(0, len(t.old)-maxRemembered+1):], left)
	}
	return acpsdk.ReleaseTerminalResponse{}, nil
}

// recall answers what a terminal printed, also after its release.
func (t *terminals) recall(id string) (output string, exit *int, truncated, ok bool) {
	t.mu.Lock()
	found := t.open[id]
	at := slices.IndexFunc(t.old, func(m memory) bool { return m.id == id })
	var left memory
	if at >= 0 {
		left = t.old[at]
	}
	t.mu.Unlock()
	switch {
	case found != nil:
		text, truncated, ended := found.read()
		if ended {
			exit, _ = exitOf(found.command.ProcessState)
		}
		return text, exit, truncated, true
	case at >= 0:
		return left.output, left.exit, left.truncated, true
	default:
		return "", nil, false, false
	}
}

// close ends every command; none can be started any more. What they printed can still be recalled.
func (t *terminals) close() {
	t.mu.Lock()
	t.closed = true
	open := make([]*terminal, 0, len(t.open))
	for _, each := range t.open {
		open = append(open, each)
	}
	t.mu.Unlock()
	for _, each := range open {
		each.close()
	}
	t.started.Wait()
}
