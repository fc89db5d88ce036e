package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/env"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// app is what every command works with.
type app struct {
	env      *env.Env
	in       io.Reader
	out      io.Writer
	errs     io.Writer
	environ  []string // NAME=value; a later one wins
	terminal bool     // out is one
	json     bool     // --json
}

// Run carries out the command that args ask for, without the program's name, and answers the exit code.
// When ctx ends the command stops: `serve` gracefully, everything else at once.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	file, isFile := stdout.(*os.File)
	return run(ctx, &app{
		env: env.Real(), in: stdin, out: stdout, errs: stderr, environ: os.Environ(),
		terminal: isFile && term.IsTerminal(int(file.Fd())),
	}, args)
}

func run(ctx context.Context, a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	a.remark("cairn: " + render.CleanLines(explain(err)))
	var wrong *usageError
	if errors.As(err, &wrong) || isConfigError(err) {
		return exitUsage
	}
	return exitFailed
}

// getenv answers a variable of the environment, or "".
func (a *app) getenv(name string) string {
	found := ""
	for _, pair := range a.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			found = value
		}
	}
	return found
}

// usageError is a command that was not called as it must be.
type usageError struct {
	message string
	command string // whose --help tells more, or ""
}

// Error answers the message and where to read more.
func (e *usageError) Error() string {
	if e.command == "" {
		return e.message
	}
	return fmt.Sprintf("%s\nRun `%s --help` for how to call it.", e.message, e.command)
}

func wrongUsage(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}
