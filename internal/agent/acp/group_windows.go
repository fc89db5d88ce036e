//go:build windows

package acp

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is a process with everything it starts: a job, which ends with this program too.
type group struct {
	mu  sync.Mutex     // guards job
	job windows.Handle // 0 when closed
}

// startGroup starts a command in a job of its own. What it starts before it is put there stays outside.
func startGroup(command *exec.Cmd) (*group, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	command.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := command.Start(); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	if err := assign(job, command.Process.Pid); err != nil {
		return nil, errors.Join(err, command.Process.Kill(), command.Wait(), windows.CloseHandle(job))
	}
	return &group{job: job}, nil
}

func assign(job windows.Handle, pid int) error {
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	return errors.Join(windows.AssignProcessToJobObject(job, process), windows.CloseHandle(process))
}

// terminate does nothing: Windows has no way to ask a program without a console.
func (g *group) terminate() {}

// kill ends every process of the job.
func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1)
	}
}

// close lets go of the job, which must have been killed.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
		g.job = 0
	}
}

// leaderEnded has nothing to notice: a job's handle is never somebody else's.
func (g *group) leaderEnded() {}

// exitOf is the exit code of a process that has ended.
func exitOf(state *os.ProcessState) (code *int, signal *string) {
	if state == nil {
		return nil, nil // the system did not tell
	}
	exit := state.ExitCode()
	return &exit, nil
}

// withoutWaiting has no meaning here: there are no FIFOs among files.
const withoutWaiting = 0

// shell runs a whole line.
func shell(line string) (string, []string) { return "cmd.exe", []string{"/C", line} }
