// Package acpagent is an agent without a model, for tests: it speaks the Agent Client Protocol on stdin and
// stdout and does what the prompt says, one action a line.
//
// TestMain calls Main first; Command then names the test binary as an agent. By hand it is
// go run ./internal/testkit/acpagent/cmd. $ROOT and $SESSION in a prompt are the session's folder and id. A
// prompt whose first word is no action is answered "you said: …". The actions:
//
//	say TEXT · think TEXT          a chunk of a message, of a thought
//	echo                           says the whole prompt
//	chunks N TEXT                  N chunks as fast as they are taken; option progress=FILE counts them there
//	tool ID KIND TITLE             a tool call: pending, in_progress, completed with a text
//	open ID · fail ID              begins a tool call and leaves it open · ends one as failed
//	diff PATH                      a tool call with a diff
//	plan a|b*|c+                   a plan; * is in progress, + is completed
//	usage IN OUT · cost USD        tokens of the prompt (add up) · the session's cost so far
//	ask ID TITLE [opt:kind,…]      asks for permission, then says the option or "cancelled"
//	asks N                         N at once, then says what each got: "1:allow 2:cancelled …"
//	askuntil FILE ID TITLE         asks, and withdraws it when the file exists
//	read PATH · lines PATH L N     says a file, or N lines of it from L · relative paths count from the root
//	rawread PATH · rawwrite PATH T as read and write, the path as it is
//	reads N PATH                   N reads at once, then says how many came back
//	write PATH TEXT                writes a file (\n in TEXT is a newline), says "wrote"
//	terminal CMD…                  runs a shell line as a tool call, says its output and how it ended
//	background CMD…                starts one and leaves it, says "terminal ID"
//	output ID · kill ID · release ID · exit ID   of such a terminal; exit waits for its end
//	spawn CMD…                     starts a shell line as a child of its own, holding its stdout, and says its pid
//	call METHOD                    calls an extension method of the client, says the error
//	env NAME · cwd                 says a variable ("unset" when it is none), its folder
//	touch FILE · wait FILE         makes a file · goes on when it exists
//	pid FILE                       writes the agent's process number there
//	garbage TEXT · longline N      a line of its own on stdout · a chunk whose line has N bytes
//	stderr TEXT · die CODE         writes there · ends at once
//	closestdout · closestdin       closes it and goes on
//	hang · hangforever             until it is cancelled · not even then, nor on SIGTERM
//	refuse · stop REASON           ends the prompt with this reason
//	error TEXT                     refuses the prompt
//
// The options: load=DIR, resume=DIR (sessions are kept there and can be loaded, resumed), auth (log in first),
// version=N (of the protocol), banner=N (lines before the protocol), die=CODE and hang (at initialize), hangnew
// (at session/new), slowload=FILE (loads when the file exists), progress=FILE, noinfo (no agentInfo).
package acpagent

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
)

// marker as the first argument makes a test binary an agent.
const marker = "-acpagent"

// Main is the life of a process that Command names, which it ends; in any other process it does nothing.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != marker {
		return
	}
	code, err := Run(os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// Command is this test binary as an agent with these options.
func Command(t testing.TB, options ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	return append([]string{self, marker}, options...)
}

// Run is the agent: it ends with its stdin and answers the exit code.
func Run(arguments []string) (int, error) {
	o, err := parse(arguments)
	if err != nil {
		return 2, err
	}
	for i := range o.banner {
		fmt.Fprintf(os.Stdout, "Welcome, line %d\n", i+1)
	}
	a := &agent{options: o, out: &output{to: os.Stdout}, sessions: make(map[acpsdk.SessionId]*session), forever: make(chan struct{})}
	ready := make(chan struct{})
	a.conn = acpsdk.NewAgentSideConnection(a, a.out, &held{ready, os.Stdin})
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	close(ready)
	<-a.conn.Done()
	if a.hangs.Load() {
		<-a.forever
	}
	return 0, nil
}

type options struct {
	load, resume  string
	auth          bool
	version       int
	banner        int
	die           int
	hang, hangNew bool
	slowLoad      string
	progress      string
	noInfo        bool
}

func parse(arguments []string) (options, error) {
	o := options{version: acpsdk.ProtocolVersionNumber}
	for _, argument := range arguments {
		name, value, _ := strings.Cut(argument, "=")
		number, _ := strconv.Atoi(value) // what is no number is 0
		switch name {
		case "load":
			o.load = value
		case "resume":
			o.resume = value
		case "auth":
			o.auth = true
		case "version":
			o.version = number
		case "banner":
			o.banner = number
		case "die":
			o.die = number
		case "hang":
			o.hang = true
		case "hangnew":
			o.hangNew = true
		case "slowload":
			o.slowLoad = value
		case "progress":
			o.progress = value
		case "noinfo":
			o.noInfo = true
		default:
			return o, fmt.Errorf("there is no option %q", argument)
		}
	}
	return o, nil
}

// held reads only when everything is in its place: the SDK reads from the moment a connection is made.
type held struct {
	ready chan struct{}
	from  io.Reader
}

// Read reads.
func (h *held) Read(to []byte) (int, error) {
	<-h.ready
	return h.from.Read(to)
}

// output keeps what the SDK writes and what the script writes apart, line by line.
type output struct {
	mu sync.Mutex // held while a line is written
	to io.WriteCloser
}

// Write writes whole lines.
func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(line)
}
