package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Times of what is done for the model.
const (
	requestTimeout = 30 * time.Second
	leaveTimeout   = 10 * time.Second
	sendGrace      = 3 * time.Second
)

// Options is what a viewer is made of.
type Options struct {
	Client  *client.Client
	Session string // a session's id or key
	// Identity is an age identity (AGE-SECRET-KEY-1…) that opens sealed payloads; "" leaves them sealed.
	Identity string
	Env      *env.Env
	// In and Out are a terminal. On others the screen is what they say it is: 80 by 24.
	In    io.Reader
	Out   io.Writer
	Color bool
	// Zone is of the times shown; nil is UTC.
	Zone *time.Location
	// Take makes this device the session's executor, with force when another one holds it live, and runs the agent in this
	// process until its Driver is stopped; ctx ends after that, or when the person leaves while it starts. nil when no command was given: then /take
	// is refused with a line that says how to give one. Its error and its end are shown.
	Take func(ctx context.Context, force bool) (Driver, error)
	// TakeAtStart starts the agent at once, without force: it does not run when another device drives.
	TakeAtStart bool
	// Title is shown in place of the session's own; "" for that.
	Title string

	size func() (width, height int) // of tests that have no terminal
	seen func(lines []string)       // told each screen
}

// Driver is an agent that runs in this process and executes the session.
type Driver interface {
	// Done is closed when it ended; Err then says why, nil after Stop.
	Done() <-chan struct{}
	Err() error
	// Stop ends it and waits until it ended, or ctx does.
	Stop(ctx context.Context) error
	// Notice brings lines for the person; it is closed at the end or never.
	Notice() <-chan string
}

// Run shows a session until the person leaves or ctx ends, which is no failure. It answers an error when the session
// cannot be read at the start, when access to it was lost while it was shown, what the last agent's end has to say, and why
// the agent of TakeAtStart did not start, when none ever ran. That another device drives now is no failure.
func Run(ctx context.Context, o Options) error {
	detail, err := o.Client.GetSession(ctx, o.Session)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	zone := o.Zone
	if zone == nil {
		zone = time.UTC
	}
	m := newModel(setup{
		own: o.Client.DeviceID(), title: o.Title, canTake: o.Take != nil, take: o.TakeAtStart, colour: o.Color, keyed: o.Identity != "", zone: zone,
		now: o.Env.Now, newID: o.Env.NewID, detail: detail,
	})
	r := &runner{options: o, ctx: ctx, model: m, ref: detail.ID, points: make(chan presenceEffect, 1)}
	program := tea.NewProgram(r, r.teaOptions()...)
	r.send = program.Send
	defer context.AfterFunc(ctx, program.Quit)() // a program that its context kills does not wait for its reader
	_, err = program.Run()
	ended := r.leave(cancel)
	if err != nil {
		return fmt.Errorf("show session: %w", err)
	}
	return errors.Join(m.endErr, m.farewell(ended))
}

// runner carries out what the model wants. Its methods of tea.Model are called by one goroutine.
type runner struct {
	options Options
	ctx     context.Context // ends with Run
	model   *model
	ref     string
	send    func(tea.Msg)
	tasks   sync.WaitGroup
	sends   sync.WaitGroup      // those of tasks that a person's wish depends on
	points  chan presenceEffect // the newest, until it is said

	mu       sync.Mutex // guards what follows
	viewer   *client.Viewer
	stopFeed context.CancelFunc
	driver   Driver
	release  context.CancelFunc // ends the driver's context
	left     bool               // no driver may start any more
	// driverErr is how the last driver ended, which the screen showed only while it was there.
	driverErr error
}

func (r *runner) teaOptions() []tea.ProgramOption {
	options := []tea.ProgramOption{
		tea.WithInput(r.options.In), tea.WithOutput(r.options.Out), tea.WithoutSignalHandler(),
	}
	if !r.options.Color {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	if r.options.size != nil {
		options = append(options, tea.WithWindowSize(r.options.size()))
	}
	return options
}

// Init starts the model.
func (r *runner) Init() tea.Cmd {
	r.task(r.present)
	return r.carryOut(r.model.start())
}

// Update gives the model a message.
func (r *runner) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	return r, r.carryOut(r.model.handle(msg))
}

// View shows the model.
func (r *runner) View() tea.View {
	p := r.model.draw()
	lines := r.model.text(p)
	if r.options.seen != nil {
		r.options.seen(lines)
	}
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen, view.ReportFocus, view.MouseMode = true, true, tea.MouseModeCellMotion
	view.WindowTitle = "cairn: " + oneLine(short(r.model.called, 80))
	if p.cursor {
		view.Cursor = tea.NewCursor(p.x, p.y)
	}
	return view
}

// task runs something that Run waits for.
func (r *runner) task(do func()) { r.tasks.Go(do) }

// carryOut starts what the model wants; nothing of it is waited for here.
func (r *runner) carryOut(effects []effect) tea.Cmd {
	var commands []tea.Cmd
	for _, e := range effects {
		switch e := e.(type) {
		case quitEffect:
			commands = append(commands, tea.Quit)
		case redrawEffect:
			commands = append(commands, tea.ClearScreen)
		case presenceEffect:
			r.point(e)
		case followEffect:
			r.follow(e)
		case timerEffect:
			r.task(func() { r.timer(e) })
		case takeEffect:
			r.task(func() { r.drive(e.force) })
		case sendEffect, dispatchEffect:
			r.sends.Add(1)
			r.task(func() {
				defer r.sends.Done()
				r.request(e)
			})
		default:
			r.task(func() { r.request(e) })
		}
	}
	return tea.Batch(commands...)
}

func (r *runner) timer(e timerEffect) {
	timer := time.NewTimer(e.after)
	defer timer.Stop()
	select {
	case <-timer.C:
		r.send(e.msg)
	case <-r.ctx.Done():
	}
}

// request makes one request and tells the model how it went.
func (r *runner) request(e effect) {
	ctx, cancel := context.WithTimeout(r.ctx, requestTimeout)
	defer cancel()
	c := r.options.Client
	switch e := e.(type) {
	case readEffect:
		page, err := c.Events(ctx, r.ref, e.query)
		r.send(pageMsg{e.gen, e.want, e.query, r.entries(page.Events), page.LastSeq, err})
	case detailEffect:
		detail, err := c.GetSession(ctx, r.ref)
		r.send(detailMsg{detail, err})
	case pendingEffect:
		waits, prompts, err := r.waiting(ctx)
		r.send(pendingMsg{e.ids, waits, prompts, err})
	case sendEffect:
		_, err := c.SendControl(ctx, r.ref, e.control)
		r.send(sentMsg{id: e.control.ID, err: err})
	case dispatchEffect:
		receipt, err := c.Dispatch(ctx, r.ref, e.dispatch)
		msg := sentMsg{id: *e.dispatch.ControlID, err: err}
		if err == nil {
			msg.dispatch = &receipt
		}
		r.send(msg)
	}
}

// waiting answers the ids of the controls that are not applied, and the oldest prompts among them.
func (r *runner) waiting(ctx context.Context) (waits map[string]bool, prompts []wire.Control, err error) {
	waits = map[string]bool{}
	for control, err := range r.options.Client.AllControls(ctx, r.ref, client.ControlsQuery{Applied: client.AppliedPending}) {
		if err != nil {
			return nil, nil, err
		}
		waits[control.ID] = true
		if isPrompt(control.Kind) && len(prompts) < maxWishes {
			prompts = append(prompts, control)
		}
	}
	return waits, prompts, nil
}

// entries opens what was read, as the stream does.
func (r *runner) entries(events []wire.Event) []entry {
	entries := make([]entry, len(events))
	for i, event := range events {
		frame := client.EventFrame{Event: event, Sealed: client.IsSealed(event.Payload)}
		if frame.Sealed && r.options.Identity != "" {
			plain, err := client.Open(event.Payload, r.options.Identity)
			if frame.OpenErr = err; err == nil {
				frame.Payload = plain
			}
		}
		entries[i] = newEntry(frame)
	}
	return entries
}

// follow starts a stream in place of the one that runs.
func (r *runner) follow(e followEffect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopFeed != nil {
		r.stopFeed()
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.stopFeed = cancel
	r.viewer = r.options.Client.View(r.ref, client.ViewOptions{After: e.after, Transport: client.WebSocket, Identity: r.options.Identity})
	f := &feed{gen: e.gen, viewer: r.viewer, frames: make(chan any, feedRoom)}
	r.task(func() {
		defer cancel()
		f.run(ctx, func(msg any) { r.send(msg) })
	})
	r.pointLater(r.model.saidPoint)
}

// point says who looks, later and elsewhere: a slow connection must not hold up the screen.
func (r *runner) point(p presenceEffect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pointLater(p)
}

func (r *runner) pointLater(p presenceEffect) {
	select {
	case <-r.points:
	default:
	}
	r.points <- p // there is room: only who holds mu puts something in
}

// present tells the stream's viewer what the model said last.
func (r *runner) present() {
	for {
		select {
		case p := <-r.points:
			r.mu.Lock()
			viewer := r.viewer
			r.mu.Unlock()
			if viewer != nil {
				point(viewer, p)
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// say prints a line after the screen is gone. A terminal that is gone too hears nothing.
func (r *runner) say(line string) { _, _ = fmt.Fprintln(r.options.Out, line) }

// leave ends what was started, waits for it, and answers how the agent ended. What was sent last gets a moment to arrive.
func (r *runner) leave(cancel context.CancelFunc) error {
	r.mu.Lock()
	viewer, driver, release := r.viewer, r.driver, r.release
	r.left = true
	r.mu.Unlock()
	var ended error
	if driver != nil {
		r.say("stopping the agent and storing what it said …")
		ended = r.stop(driver)
		release()
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		r.sends.Wait()
		if viewer != nil {
			point(viewer, presenceEffect{})
		}
	}()
	timer := time.NewTimer(sendGrace)
	defer timer.Stop()
	select {
	case <-said:
	case <-timer.C:
	}
	cancel()
	r.tasks.Wait()
	<-said // its requests and its connection ended with the context
	if driver != nil {
		return ended
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.driverErr
}
