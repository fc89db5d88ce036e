package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/workspace"
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
	// interactive is a terminal at in: somebody can be asked.
	interactive bool
	json        bool // --json
}

// Run carries out the command that args ask for, without the program's name, and answers the exit code.
// When ctx ends the command stops: `serve` gracefully, everything else at once.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return run(ctx, &app{
		env: env.Real(), in: stdin, out: stdout, errs: stderr, environ: os.Environ(),
		terminal: isTerminal(stdout), interactive: isTerminal(stdin),
	}, args)
}

func isTerminal(stream any) bool {
	file, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

func run(ctx context.Context, a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	a.report(err)
	var wrong *usageError
	if errors.As(err, &wrong) || isConfigError(err) {
		return exitUsage
	}
	return exitFailed
}

// report says on standard error why a command failed, with --json as JSON with the protocol's code if it has one.
func (a *app) report(err error) {
	text := render.CleanLines(a.explain(err))
	if !a.json {
		a.remark("cairn: " + text)
		return
	}
	var said failure
	said.Error.Message = text
	if refused := client.AsAPIError(err); refused != nil {
		said.Error.Code = string(refused.Code)
	}
	if refused := workspace.AsProblem(err); refused != nil {
		said.Error.Code = refused.Code
	}
	encoder := json.NewEncoder(a.errs)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(said); err != nil {
		a.remark("cairn: " + text)
	}
}

// failure is what --json says on standard error.
type failure struct {
	Error struct {
		Message string `json:"message"`
		Code    string `json:"code,omitempty"` // of the protocol
	} `json:"error"`
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
