package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/agent/acp"
	"github.com/cairnsync/cairn/internal/agent/translate"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/filelock"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Defaults of Options.
const (
	DefaultQuietLimit  = 15 * time.Minute
	DefaultCancelGrace = 20 * time.Second
	DefaultStopGrace   = 2 * time.Second
	DefaultQueueEvents = 10_000
	DefaultQueueBytes  = 64 << 20
)

// batchWait is short: pieces of text were gathered before already.
const batchWait = 40 * time.Millisecond

// Options say what runs where.
type Options struct {
	Client  *sessions.Client
	Session string   // an existing one: id or key
	Command []string // of the agent
	Shell   bool     // the last word of Command is a line for the shell that the others are
	Root    string   // absolute: the agent works there, and its file and terminal requests stay inside
	// Folder keeps the lock and the journal of this session on this device; it is made when it is not there (0700).
	Folder string
	Force  bool // also take a live lease from another device (SS-LEASE-3)
	// Woken says that a dispatch woke this device: what is targeted at it is looked at before the lease is claimed, and Start
	// answers sessions.ErrNothingDispatched when nothing is there (SS-CON-3).
	Woken      bool
	Recipients func(ctx context.Context) ([]string, error) // as in sessions.ExecutorOptions; nil for plain payloads
	Identity   string                                      // opens the session's earlier payloads; "" when they are plain
	// Linger ends the runner cleanly when nothing ran and nothing waited for so long; 0 is never.
	Linger time.Duration
	// QuietLimit is how long an agent may say nothing while it works and neither a question nor a request of it, such as for the
	// end of a terminal, is open; default 15 minutes, negative for no limit.
	QuietLimit time.Duration
	// TurnLimit is how long a turn may take, questions and pauses apart; 0 is no limit.
	TurnLimit   time.Duration
	CancelGrace time.Duration // from asking an agent to end its prompt to ending the agent; default 20 s
	StopGrace   time.Duration // between the steps of ending an agent; default 2 s
	// QueueEvents and QueueBytes bound what waits to be stored, in memory and in the journal; default 10 000 events, 64 MiB. At the
	// bound nothing more is read from the agent.
	QueueEvents int
	QueueBytes  int
	Environ     []string  // of the agent, see acp.Options
	Stderr      io.Writer // gets the agent's standard error; nil discards it
	Version     string
	Env         *env.Env
	Log         *slog.Logger // nil discards
}

func (o Options) withDefaults() Options {
	if o.QuietLimit == 0 {
		o.QuietLimit = DefaultQuietLimit
	}
	if o.CancelGrace <= 0 {
		o.CancelGrace = DefaultCancelGrace
	}
	if o.StopGrace <= 0 {
		o.StopGrace = DefaultStopGrace
	}
	if o.QueueEvents <= 0 {
		o.QueueEvents = DefaultQueueEvents
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = DefaultQueueBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrRunsHere is a session that another process on this machine executes already, for the same folder.
var ErrRunsHere = errors.New("another cairn on this machine executes this session")

// StartError is an agent that does not start: its program, its sign-in or its protocol is the reason, not the session.
type StartError struct{ Err error }

// Error answers why.
func (e *StartError) Error() string { return "the agent does not start: " + e.Err.Error() }

// Unwrap answers the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Runner is one agent at work on one session.
type Runner struct {
	o        Options
	executor *sessions.Executor
	journal  *sessions.Journal
	unlock   func()
	notices  chan string

	calls     chan call
	ended     chan struct{} // closed when the loop takes no more calls
	done      chan struct{}
	marks     chan string // controls to mark, in order
	marked    chan struct{}
	gate      gate
	workers   sync.WaitGroup  // prompts, confirmations, watches of agents
	stopping  context.Context // ends when a clean stop is asked for
	askStop   context.CancelFunc
	life      context.Context // ends with everything, or when a stop takes too long
	endLife   context.CancelFunc
	err       error // set before done is closed, as lastWords
	full      error // the journal has no room
	lastWords string

	// The rest belongs to the loop, and before it to Start.

	machine    machine
	translator *translate.Translator
	agent      *acp.Agent // nil when there is none
	session    string     // the agent's own, to be loaded by the next agent
	context    string     // for an agent that does not know the session; given once
	said       map[string]bool
	replies    map[string]chan string
	prompting  bool
	quitStart  context.CancelFunc // ends the starting of an agent, nil when none starts
	flush      *time.Timer        // for gathered text
	began      time.Time          // the prompt
	worked     time.Duration      // of the turn, questions and pauses apart
	ticked     time.Time
	killAt     time.Time // zero: no interrupt is pending
	cancelAt   time.Time // when to ask again, while killAt is set
	killed     bool
	idleSince  time.Time
}

// Start starts the agent, claims the session's lease and executes. Nothing is left behind when it fails: the errors are those
// of acp.Start and of Client.Execute, ErrRunsHere, and sessions.ErrNothingDispatched. ctx bounds the starting only.
func Start(ctx context.Context, o Options) (*Runner, error) {
	r := newRunner(o.withDefaults())
	if err := r.open(); err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		if r.lastWords != "" {
			err = fmt.Errorf("%w (%s)", err, r.lastWords)
		}
		return nil, errors.Join(err, r.abandon())
	}
	go r.mark()
	go r.run()
	return r, nil
}

func newRunner(o Options) *Runner {
	r := &Runner{
		o: o, notices: make(chan string, 64), calls: make(chan call), ended: make(chan struct{}), done: make(chan struct{}),
		marks: make(chan string, 4096), marked: make(chan struct{}), said: map[string]bool{}, replies: map[string]chan string{},
		flush: time.NewTimer(time.Hour), idleSince: o.Env.Now(), ticked: o.Env.Now(),
	}
	r.flush.Stop()
	r.life, r.endLife = context.WithCancel(context.Background())
	r.stopping, r.askStop = context.WithCancel(r.life)
	r.translator = translate.New(r.terminal)
	return r
}

// Lock takes a session's folder, which it makes, for this process, until unlock. Another process of this device that has it is
// ErrRunsHere.
func Lock(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for the session: %w", err)
	}
	lock, err := filelock.Take(filepath.Join(folder, "lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, ErrRunsHere
	}
	if err != nil {
		return nil, err
	}
	return func() { filelock.Release(lock) }, nil
}

// open takes the session's folder on this machine for this process.
func (r *Runner) open() error {
	unlock, err := Lock(r.o.Folder)
	if err != nil {
		return err
	}
	journal, err := sessions.OpenJournal(filepath.Join(r.o.Folder, "journal"))
	if err != nil {
		unlock()
		return err
	}
	r.unlock, r.journal = unlock, journal
	if err := journal.Room(); err != nil {
		return errors.Join(err, r.close())
	}
	return nil
}

func (r *Runner) close() error {
	err := r.journal.Close()
	r.unlock()
	return err
}

// Session answers the server's id of the session.
func (r *Runner) Session() string { return r.executor.SessionID() }

// Notice tells, in words for the person at this machine, what happens around the agent. Lines that nobody reads are dropped.
func (r *Runner) Notice() <-chan string { return r.notices }

func (r *Runner) noticef(format string, args ...any) {
	select {
	case r.notices <- fmt.Sprintf(format, args...):
	default:
	}
}

// Done is closed when the agent, the lease and every goroutine have ended.
func (r *Runner) Done() <-chan struct{} { return r.done }

// Err answers, after Done, why the runner ended: nil after Stop or Linger, a *sessions.LeaseLostError, or what else ended the
// executor; before Done nil.
func (r *Runner) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Lost answers how the lease was lost, or nil.
func (r *Runner) Lost() *sessions.LeaseLostError { return r.executor.Lost() }

// Stop ends the turn that runs, the agent and the lease, and stores what was said. When ctx ends first, what is left stays in the
// journal. What waits stays pending, for the next executor. It answers Err.
func (r *Runner) Stop(ctx context.Context) error {
	r.askStop()
	select {
	case <-r.done:
	case <-ctx.Done():
		r.endLife()
		<-r.done
	}
	return r.err
}

func keptWords(left int, folder string) string {
	return fmt.Sprintf("%s could not be stored yet: kept in %s, and stored when the session is executed here again unless another "+
		"device did so meanwhile", events(left), filepath.Join(folder, "journal"))
}

func events(count int) string {
	if count == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", count)
}

// setAside moves what cannot be stored any more into a file of its own, and says so.
func (r *Runner) setAside(why string) error {
	path := filepath.Join(r.o.Folder, "unsent-"+r.o.Env.Now().UTC().Format("20060102T150405.000")+".jsonl")
	count, err := r.journal.SetAside(path)
	if err == nil && count > 0 {
		r.lastly(fmt.Sprintf("%s could not be stored any more, because %s: kept in %s", events(count), why, path))
	}
	return err
}

// lastly adds to the last words.
func (r *Runner) lastly(words string) {
	if r.lastWords != "" {
		words = r.lastWords + "; " + words
	}
	r.lastWords = words
}

// LastWords says, after Done, what became of events that could not be stored; "" when all were.
func (r *Runner) LastWords() string { return r.lastWords }

// control takes a control into the loop. It always leaves it pending for the SDK: the loop marks it when what came of it is stored.
func (r *Runner) control(ctx context.Context, control wire.Control) error {
	r.inLoop(ctx, func() {
		if r.stopping.Err() != nil {
			return // it stays pending, for the next executor
		}
		if r.said[control.ID] || r.said[turnOf(control)] { // by an executor that died before it could mark it
			r.queueMark(control.ID)
			return
		}
		r.handle(gotControl{control})
	})
	return sessions.ErrLeavePending
}
