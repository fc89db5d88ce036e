//go:build unix

package acp

import (
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is a process with everything it starts, as far as that stays in its process group.
type group struct {
	id   int
	over chan struct{} // closed by close

	mu     sync.Mutex // guards what follows
	gone   bool       // nobody is left: the number may belong to others by now
	closed bool
}

// startGroup starts a command as the leader of a group of its own.
func startGroup(command *exec.Cmd) (*group, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g := &group{over: make(chan struct{})}
	if err := begin(command, g.over); err != nil {
		return nil, err
	}
	g.id = command.Process.Pid
	return g, nil
}

// terminate asks every process of the group to end.
func (g *group) terminate() { g.signal(syscall.SIGTERM) }

// kill ends every process of the group.
func (g *group) kill() { g.signal(syscall.SIGKILL) }

// close lets go of the group, which must have been killed.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		close(g.over)
	}
}

// leaderEnded notices whether the leader was the last.
func (g *group) leaderEnded() { g.signal(0) }

func (g *group) signal(signal syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone && syscall.Kill(-g.id, signal) == syscall.ESRCH {
		g.gone = true
	}
}

// exitOf is the exit code of a process that has ended, or the name of the signal that ended it.
func exitOf(state *os.ProcessState) (code *int, signal *string) {
	if state == nil {
		return nil, nil // the system did not tell
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		name := unix.SignalName(status.Signal())
		return nil, &name
	}
	exit := state.ExitCode()
	return &exit, nil
}

// withoutWaiting opens a FIFO without waiting for its other end, so that it can be seen and refused.
const withoutWaiting = syscall.O_NONBLOCK

// shell runs a whole line.
func shell(line string) (string, []string) { return "/bin/sh", []string{"-c", line} }
