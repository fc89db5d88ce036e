package acp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"github.com/cairnsync/cairn/internal/env"
)

// Options say which agent to start and where.
type Options struct {
	Command []string // program and arguments; a relative program path counts from Root
	Root    string   // absolute folder: the agent's working directory; file and terminal requests stay inside
	Env     *env.Env
	// Environ is the environment of the agent and its terminals, as os.Environ has it; nil is this process's.
	// CAIRN_API_KEY and CAIRN_SHARE_TOKEN are always taken out.
	Environ    []string
	Log        *slog.Logger  // nil: nothing is logged
	Stderr     io.Writer     // gets the agent's stderr, and greetings on its stdout, as they come; nil: thrown away
	StartLimit time.Duration // for initialize, and for session/new, load or resume; default 60 s each
	StopGrace  time.Duration // between closing stdin, SIGTERM and SIGKILL; default 3 s
	Version    string        // of this program, as told to the agent; default "dev"
	Handler    Handler
}

// Handler is told what the agent does.
type Handler interface {
	// Update is called for each session/update of the current session, one at a time, in the agent's order,
	// before any later message of the agent is looked at. While it blocks nothing more is read from the agent.
	// ctx ends when Stop is called.
	Update(ctx context.Context, update acpsdk.SessionUpdate)
	// Permission answers a permission request; several may be open at once. ctx ends when the agent ends or
	// withdraws the request and when Cancel is called; the answer is then not used.
	Permission(ctx context.Context, ask acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error)
	// Step is called before each file or terminal request is served, and may hold it. An error refuses the request.
	Step(ctx context.Context) error
}

// Agent is one running agent. See the package's comment for order, bounds and concurrency.
type Agent struct {
	o         Options
	log       *slog.Logger
	process   *process
	conn      *acpsdk.Connection
	toSDK     *io.PipeWriter // what the SDK may read
	gate      *gate
	files     *files
	terminals *terminals

	alive   context.Context // ends with the process, with its first breach of the protocol, and with Stop
	endLife context.CancelFunc
	told    context.Context // ends with Stop: what a dead agent still said is worth telling
	endTold context.CancelFunc
	calls   sync.WaitGroup // requests of ours; added to under mu while not over
	slot    chan struct{}  // holds the one request of ours that is open
	cancels chan struct{}  // holds the one cancellation that is being written
	wrote   atomic.Pointer[time.Time]
	waiting atomic.Int64  // requests and updates of the agent that we work on
	deaf    chan struct{} // closed when the agent does not take messages any more; under mu
	done    chan struct{}
	stopped sync.Once

	mu        sync.Mutex // guards what follows
	err       error      // set before done is closed
	garbage   *GarbageError
	stopping  bool
	over      bool // the agent is being put away: nothing is asked of it any more
	ready     bool // initialize was answered
	hello     acpsdk.InitializeResponse
	session   acpsdk.SessionId
	call      *call
	cancelled bool // the running prompt was cancelled
	asks      map[uint64]context.CancelCauseFunc
	nextAsk   uint64
}

// Start spawns the agent and introduces this program to it; ctx bounds the starting only. An agent that does
// not start is gone when Start returns. Errors: what the system says about the program, *ExitError,
// *GarbageError, *VersionError, *AuthError, *Refusal, or that the time is over.
func Start(ctx context.Context, o Options) (*Agent, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	files, err := openFiles(o.Root)
	if err != nil {
		return nil, err
	}
	environ := cleanEnviron(o.Environ)
	spawned, err := spawn(o, environ)
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	a := newAgent(o, spawned, files)
	a.terminals = newTerminals(o.Root, environ, files)
	a.live()
	if err := a.initialize(ctx); err != nil {
		a.process.kill()
		return nil, errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
	}
	return a, nil
}

func (o Options) complete() (Options, error) {
	switch {
	case len(o.Command) == 0 || o.Command[0] == "":
		return o, errors.New("start agent: no command is named")
	case !filepath.IsAbs(o.Root):
		return o, fmt.Errorf("start agent: root %q is not an absolute path", o.Root)
	case o.Env == nil, o.Handler == nil:
		return o, errors.New("start agent: it needs an environment and a handler")
	}
	o.Root = filepath.Clean(o.Root)
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.StartLimit <= 0 {
		o.StartLimit = 60 * time.Second
	}
	if o.StopGrace <= 0 {
		o.StopGrace = 3 * time.Second
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	return o, nil
}

func newAgent(o Options, spawned *process, files *files) *Agent {
	a := &Agent{
		o: o, log: o.Log, process: spawned, files: files, gate: newGate(),
		slot: make(chan struct{}, 1), cancels: make(chan struct{}, 1), deaf: make(chan struct{}), done: make(chan struct{}),
		asks: make(map[uint64]context.CancelCauseFunc),
	}
	a.alive, a.endLife = context.WithCancel(context.Background())
	a.told, a.endTold = context.WithCancel(context.Background())
	a.touch()
	fromAgent, toSDK := io.Pipe()
	a.toSDK = toSDK
	a.conn = acpsdk.NewConnection(a.serve, &outgoing{agent: a, stdin: spawned.stdin}, fromAgent)
	a.conn.SetLogger(slog.New(warnings{o.Log.Handler()}))
	return a
}

// Done is closed when the process has ended or broke the protocol and all it said before was told.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Err answers after Done why the agent ended: *ExitError, *GarbageError, or nil after Stop. Before Done it is nil.
func (a *Agent) Err() error {
	select {
	case <-a.done:
	default:
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Name is what the agent calls itself, else the name of its program.
func (a *Agent) Name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if info := a.hello.AgentInfo; info != nil {
		if info.Title != nil && *info.Title != "" {
			return *info.Title
		}
		if info.Name != "" {
			return info.Name
		}
	}
	return filepath.Base(a.o.Command[0])
}

// Activity is when the agent last wrote anything, a request of it was last answered, or a Handler.Update last
// returned, whichever is latest.
func (a *Agent) Activity() time.Time { return *a.wrote.Load() }

// Busy says that silence is no hang: a request of the agent, for example for the end of a terminal, or an update of it waits for us.
// A terminal that runs in the background is no reason to be silent.
func (a *Agent) Busy() bool { return a.waiting.Load() > 0 }

// Terminal answers what a terminal of the agent printed, its exit code (nil while it runs, and when a signal
// ended it) and whether the beginning is missing. The last 32 released terminals are remembered with the last
// 256 KiB each; ok is false for others.
func (a *Agent) Terminal(id string) (output string, exit *int, truncated, ok bool) {
	return a.terminals.recall(id)
}

func (a *Agent) touch() {
	now := a.o.Env.Now()
	a.wrote.Store(&now)
}

// live starts what reads from the agent and what sees it end.
func (a *Agent) live() {
	heard, exited := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		a.listen()
	}()
	go func() {
		defer close(exited)
		a.process.wait()
		a.endLife()
	}()
	go func() {
		<-heard
		<-exited
		<-a.process.complained
		a.finish()
	}()
	go a.process.relay(a.touch)
}

// finish puts everything away after the process has ended and the last line was read.
func (a *Agent) finish() {
	a.endLife()
	a.terminals.close()
	_ = a.toSDK.Close()
	_ = a.process.stdin.Close() // lets a write that nobody reads any more return
	<-a.conn.Done()
	a.gate.drain()
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.calls.Wait()
	a.process.group.close()
	_ = a.files.close()
	a.mu.Lock()
	switch {
	case a.garbage != nil:
		a.err = a.garbage
	case !a.stopping:
		a.err = &ExitError{State: a.process.state(), Stderr: a.process.tail()}
	}
	a.mu.Unlock()
	close(a.done)
}

// Stop ends the agent: it closes its stdin, waits StopGrace, sends SIGTERM to its process group, waits again,
// and kills what is left, terminals too. From its call on the Handler is told nothing more and open contexts
// end. A ctx that ends shortens the waiting. It returns when every process and goroutine has ended; an error
// means that a Handler did not return. Calling it again waits for the same end.
func (a *Agent) Stop(ctx context.Context) error {
	a.stopped.Do(func() {
		a.mu.Lock()
		a.stopping = true
		a.mu.Unlock()
		a.endLife()
		a.endTold()
		_ = a.process.stdin.Close()
	})
	if a.ends(ctx, a.o.StopGrace) {
		return nil
	}
	a.process.terminate()
	if a.ends(ctx, a.o.StopGrace) {
		return nil
	}
	a.process.kill()
	if a.ends(context.WithoutCancel(ctx), a.o.StopGrace) {
		return nil
	}
	return errors.New("stop agent: its handler did not return")
}

// ends waits for the agent's end and says whether it came.
func (a *Agent) ends(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-a.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *Agent) isStopping() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopping
}
