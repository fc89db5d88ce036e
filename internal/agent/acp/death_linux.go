package acp

import (
	"os/exec"
	"runtime"
	"syscall"
)

// begin starts a command that is killed when this process dies without a chance to end it. Linux ends it with the thread that
// started it, so that thread is kept until over.
func begin(command *exec.Cmd, over <-chan struct{}) error {
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		err := command.Start()
		started <- err
		if err == nil {
			<-over
		}
	}()
	return <-started
}
