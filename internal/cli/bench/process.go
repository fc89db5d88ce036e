package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// child is a process of this binary that answers a line for every line it is sent.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	hello   string // its first line
}

// spawn starts this binary with hidden arguments and waits for its first line.
func (b *bench) spawn(ctx context.Context, args ...string) (*child, error) {
	command := exec.CommandContext(ctx, b.Program, append([]string{"bench"}, args...)...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", b.Program, err)
	}
	c := &child{command: command, in: in, out: bufio.NewReader(out)}
	if c.hello, err = c.line(); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *child) line() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read from process %d: %w", c.command.Process.Pid, err)
	}
	return strings.TrimSpace(line), nil
}

// ask sends a line and waits until it has been answered, which says that it was done.
func (c *child) ask(line string) error {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return fmt.Errorf("write to process %d: %w", c.command.Process.Pid, err)
	}
	_, err := c.line()
	return err
}

// stop ends the process: it leaves when its input ends.
func (c *child) stop() error {
	_ = c.in.Close() // it may have gone by itself
	return c.command.Wait()
}

// ticksPerSecond is the unit of CPU times in /proc, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// cpu answers the CPU seconds the process has used; 0 where /proc does not exist.
func (c *child) cpu() float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.command.Process.Pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold spaces.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const userTime, systemTime = 11, 12
	if len(fields) <= systemTime {
		return 0
	}
	return (number(fields[userTime]) + number(fields[systemTime])) / ticksPerSecond
}

// resident answers the process's resident bytes after a collection.
func (c *child) resident() (float64, error) {
	if err := c.ask("collect"); err != nil {
		return 0, err
	}
	pages, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read resident memory: %w", err)
	}
	return number(strings.Fields(string(pages))[1]) * float64(os.Getpagesize()), nil
}

func number(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return value
}

// machine describes where the figures come from.
func machine() string {
	model := ""
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores, %s/%s%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, model, runtime.Version())
}

// until waits for a condition that another goroutine or process brings about.
func until(ctx context.Context, what string, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
