//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// quitSignal asks PostgreSQL for an immediate shutdown.
const quitSignal = syscall.SIGQUIT

// account runs the server when this process is root, which PostgreSQL refuses to run as.
type account struct {
	uid, gid uint32
}

// serverAccount answers nil when the server may run as the account of this process.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("read account %s: %w", name, err)
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither an account postgres nor nobody to run it as")
}

// applyTo makes cmd run as the account and outside the terminal's process group, so that an
// interrupt from the keyboard reaches the tests only.
func (a *account) applyTo(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

func prepareFolder(dir string, owner *account) (string, error) {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "cairn-postgres-")
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("make folder for the cluster: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("resolve folder: %w", err)
	}
	if owner != nil {
		if err := os.Chown(dir, int(owner.uid), int(owner.gid)); err != nil {
			return "", fmt.Errorf("hand over folder: %w", err)
		}
	}
	return dir, nil
}

// watchdogScript ends the server and its folder after its input has ended: after this process, which
// alone holds the other end of the pipe. A line in the pipe dismisses it.
const watchdogScript = `if read -r word; then exit 0; fi
kill -QUIT "$1" 2>/dev/null
tries=0
while kill -0 "$1" 2>/dev/null && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries+1)); done
rm -rf "$2"`

// watch starts the watchdog of the running server.
func (c *Cluster) watch() error {
	reading, writing, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer reading.Close()
	watchdog := exec.Command("/bin/sh", "-c", watchdogScript, "watchdog", strconv.Itoa(c.server.Process.Pid), c.dir)
	watchdog.Stdin = reading
	watchdog.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := watchdog.Start(); err != nil {
		return errors.Join(fmt.Errorf("start watchdog: %w", err), writing.Close())
	}
	c.lifeline, c.watchdog = writing, watchdog
	lifelines.Store(writing, true)
	return nil
}

// lifelines keeps the open pipes from the garbage collector, which would close them.
var lifelines sync.Map

// dismissWatchdog sends the watchdog home, once its server is gone.
func (c *Cluster) dismissWatchdog() {
	if c.watchdog == nil {
		return
	}
	_, _ = c.lifeline.WriteString("home\n") // a watchdog that died already needs no word
	lifelines.Delete(c.lifeline)
	_ = c.lifeline.Close()
	_ = c.watchdog.Wait()
	c.watchdog, c.lifeline = nil, nil
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		return childrenInProc(pid)
	}
	output, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var children []int
	for _, line := range trimmedLines(string(output)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("read process list: %w", err)
		}
		children = append(children, child)
	}
	return children, nil
}

func childrenInProc(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var children []int
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		_, rest, found := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if !found || len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("read process list: %w", err)
		}
		children = append(children, child)
	}
	return children, nil
}

// waitGone returns when none of the processes lives.
func waitGone(pids []int, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	for _, pid := range pids {
		for alive(pid) {
			if ctx.Err() != nil {
				return fmt.Errorf("wait for server process %d to end: %w", pid, ctx.Err())
			}
			pause(ctx, 5*time.Millisecond)
		}
	}
	return nil
}

// alive reports whether a process runs; a zombie that nobody has collected does not.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !procExists()
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func procExists() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
