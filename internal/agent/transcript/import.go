package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// How an import sends.
const (
	batchEvents = wire.MaxBatch
	batchWait   = 20 * time.Millisecond
	queueEvents = 5 * wire.MaxBatch
	queueBytes  = 32 << 20
	// shutGrace bounds how long an import that was interrupted stores what it has read, and gives the lease back.
	shutGrace = 10 * time.Second
)

// firstProblems is how many lines that were skipped a Report lists.
const firstProblems = 20

// Options say how to import.
type Options struct {
	// Client sends; its device takes the lease. It may be nil in a dry run.
	Client *client.Client
	Format Format // "" to tell by content
	Title  string // instead of the transcript's own; also of a session that exists
	DryRun bool   // read only, send nothing
	// Lock, when set, keeps other processes of this device, which share its lease, away from a session until unlock.
	Lock func(sessionID string) (unlock func(), err error)
	// Progress, when set, is told about every line. It is called on the importing goroutine and must be quick.
	Progress func(Progress)
	// Problem, when set, is told about every line that is skipped, in the same way.
	Problem func(Problem)
}

// Progress is how far an import is.
type Progress struct {
	Read, Size int64 // bytes of the file
	Events     int   // added and known
}

// Problem is a line that was not taken as it is.
type Problem struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// Report says what became of a file. The lines are those with events, those without (blank, or told by others), and
// those that were skipped.
type Report struct {
	File       string    `json:"file"`
	Format     Format    `json:"format,omitempty"`
	SessionID  string    `json:"session_id,omitempty"`
	SessionKey string    `json:"session_key,omitempty"`
	Title      string    `json:"title,omitempty"`
	New        bool      `json:"new"` // the session was made now
	Lines      int       `json:"lines"`
	Added      int       `json:"events_added"` // in a dry run: would be
	Known      int       `json:"events_known"` // they were there before
	Skipped    int       `json:"lines_skipped"`
	Problems   []Problem `json:"skipped"`   // the first 20
	Cut        int       `json:"lines_cut"` // with an event that was larger than a server takes
	Bytes      int64     `json:"bytes"`
	// Complete says that the whole file was read and everything of it is stored.
	Complete bool   `json:"complete"`
	Error    string `json:"error,omitempty"` // for whoever prints the Report
}

// Errors of an import.
var (
	// ErrSealed is a session with sealed payloads: an import would put plain ones beside them.
	ErrSealed = errors.New("the session has sealed payloads, and an import would be plain")
	// ErrHeld is a session whose lease another device holds.
	ErrHeld = errors.New("another device executes the session")
	// ErrTaken is a lease that was lost in the middle; importing again goes on there.
	ErrTaken = errors.New("the session's lease was lost")
)

// Import puts a transcript into the session import:<tool>:<id>, which it makes when there is none. It holds the
// session's lease meanwhile, and gives it back at the end, also when ctx ends. What the log has already is not sent
// again, whichever device sent it. On an error the Report says how far it came; importing again goes on there.
func Import(ctx context.Context, path string, o Options) (Report, error) {
	report := Report{File: path, Problems: []Problem{}}
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return report, fmt.Errorf("open transcript: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return report, fmt.Errorf("read size of transcript: %w", err)
	}
	if !info.Mode().IsRegular() {
		return report, fmt.Errorf("read transcript: %s is no file", path)
	}
	survey, err := Look(file, o.Format)
	if err != nil {
		return report, err
	}
	report.Format, report.SessionKey, report.Title = survey.Format, sessionKey(survey, path), orElse(o.Title, survey.Title)
	run := &importing{Options: o, report: &report, reader: NewReader(file, survey), size: info.Size()}
	if o.DryRun {
		err = run.read(ctx, func(wire.IncomingEvent) error { return nil })
	} else {
		err = run.send(ctx)
	}
	report.Complete = err == nil
	return report, err
}

// sessionKey names the session of a transcript: by the id in it, else by the file's name.
func sessionKey(survey Survey, path string) string {
	id := strings.Join(strings.Fields(printable(survey.ID)), " ")
	if id == "" {
		id = printable(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	}
	key := fmt.Sprintf("import:%s:%s", survey.Format, id)
	if len(key) > wire.MaxSessionKey {
		key = fmt.Sprintf("import:%s:%s", survey.Format, plainID(id))
	}
	return key
}

// importing is an import that runs.
type importing struct {
	Options

	report *Report
	reader *Reader
	size   int64
}

// read goes through the file and gives its events to take, until that fails or ctx ends.
func (i *importing) read(ctx context.Context, take func(wire.IncomingEvent) error) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx) //nolint:wrapcheck // why the import ends
		}
		step, err := i.reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		i.note(step)
		for _, event := range step.Events {
			if err := take(event); err != nil {
				return err
			}
			if i.DryRun {
				i.report.Added++
			}
		}
		if i.Progress != nil {
			i.Progress(Progress{Read: step.Read, Size: i.size, Events: i.report.Added + i.report.Known})
		}
	}
}

func (i *importing) note(step Step) {
	i.report.Lines, i.report.Bytes = step.Line, step.Read
	if step.Cut {
		i.report.Cut++
	}
	if step.Skipped == "" {
		return
	}
	i.report.Skipped++
	problem := Problem{step.Line, step.Skipped}
	if len(i.report.Problems) < firstProblems {
		i.report.Problems = append(i.report.Problems, problem)
	}
	if i.Problem != nil {
		i.Problem(problem)
	}
}

// send puts the events that the log does not have into it.
func (i *importing) send(ctx context.Context) error {
	session, err := i.session(ctx)
	if err != nil {
		return err
	}
	if i.Lock != nil {
		unlock, err := i.Lock(session.ID)
		if err != nil {
			return err
		}
		defer unlock()
	}
	executor, err := i.Client.Execute(ctx, session.ID, client.ExecutorOptions{
		Silent:      true,
		BatchEvents: batchEvents, BatchWait: batchWait, QueueEvents: queueEvents, QueueBytes: queueBytes, StopGrace: shutGrace,
	})
	if client.AsAPIError(err) != nil && client.AsAPIError(err).HolderDeviceID() != "" {
		return fmt.Errorf("%w: device %s", ErrHeld, client.AsAPIError(err).HolderDeviceID())
	}
	if err != nil {
		return fmt.Errorf("take the session's lease: %w", err)
	}
	readErr := i.append(ctx, executor)
	// ctx may have ended: what was read is stored and the lease given back all the same.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutGrace)
	defer cancel()
	stopErr := i.stop(ctx, grace, executor, readErr)
	if err := errors.Join(readErr, stopErr); err != nil {
		return i.explained(ctx, executor, err)
	}
	return i.rename(ctx, session)
}

// stop ends the execution. A file that was read whole is stored whole, however long the server takes; what is left
// of an interrupted one has a limit.
func (i *importing) stop(ctx, grace context.Context, executor *client.Executor, readErr error) error {
	if readErr == nil {
		grace = ctx
	}
	err := executor.Stop(grace)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // it is said already
	}
	return err
}

// append sends what is new, and counts what is stored.
func (i *importing) append(ctx context.Context, executor *client.Executor) error {
	log := newWalk(i.Client.AllEvents(executor.Context(), executor.SessionID(), 0))
	defer log.close()
	return i.read(ctx, func(event wire.IncomingEvent) error {
		known, err := log.knows(*event.ClientEventID)
		switch {
		case err != nil:
			return err
		case known:
			i.report.Known++
			return nil
		}
		if err := executor.Emit(ctx, event); err != nil {
			return err
		}
		i.report.Added++
		return nil
	})
}

// explained says in one error how an import ended early.
func (i *importing) explained(ctx context.Context, executor *client.Executor, err error) error {
	if lost := executor.Lost(); lost != nil {
		if lost.HolderDeviceID != "" {
			return fmt.Errorf("%w to device %s", ErrTaken, lost.HolderDeviceID)
		}
		return fmt.Errorf("%w: %s", ErrTaken, lost.Reason)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) //nolint:wrapcheck // why the import ends
	}
	return err
}

// session makes or finds the session.
func (i *importing) session(ctx context.Context) (client.CreatedSession, error) {
	session, err := i.Client.CreateSession(ctx, client.NewSession{
		SessionKey: i.report.SessionKey, Title: clip(printable(i.report.Title), wire.MaxTitle),
	})
	if err != nil {
		return session, fmt.Errorf("make session: %w", err)
	}
	i.report.SessionID, i.report.New = session.ID, session.New
	if session.E2E {
		return session, ErrSealed
	}
	if i.Title != "" && (session.Title == nil || *session.Title != i.Title) {
		return session, i.retitle(ctx, session, i.Title)
	}
	return session, nil
}

// rename gives the session the title that a person gave the transcript, if nobody has called it otherwise since.
func (i *importing) rename(ctx context.Context, session client.CreatedSession) error {
	named := i.reader.Named()
	if named == "" || i.Title != "" || session.Title != nil && (*session.Title == named || *session.Title != i.report.Title) {
		return nil
	}
	return i.retitle(ctx, session, named)
}

func (i *importing) retitle(ctx context.Context, session client.CreatedSession, named string) error {
	named = clip(printable(named), wire.MaxTitle)
	if _, err := i.Client.PatchSession(ctx, session.ID, client.SessionPatch{Title: &named}); err != nil {
		return fmt.Errorf("name session: %w", err)
	}
	i.report.Title = named
	return nil
}
