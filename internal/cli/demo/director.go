package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/internal/cli/demo/script"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// director lets the parts act at their cues, and shows what they report.
type director struct {
	Options

	crew     *crew
	run      script.Recording
	started  time.Time
	stage    *stage
	scene    *view.Scene
	terminal *view.Terminal // nil for plain lines
	took     time.Duration  // of the play
	lost     int            // executors that lost the lease
	tallies  map[*device]tally
}

// play runs until every follower has the whole log.
func (d *director) play(ctx context.Context) error {
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	for _, first := range []*device{d.stage.phone, d.stage.desktop} {
		if err := d.start(first); err != nil {
			return err
		}
	}
	for len(d.tallies) < len(d.stage.followers()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("play: %w", ctx.Err())
		case said := <-d.crew.heard:
			if err := d.hear(ctx, said); err != nil {
				return err
			}
		case <-redraw.C:
			if err := d.redraw(); err != nil {
				return err
			}
		}
	}
	d.took = d.Env.Now().Sub(d.started)
	return d.redraw()
}

func (d *director) redraw() error {
	if d.terminal == nil {
		return nil
	}
	return d.terminal.Draw(d.picture())
}

// start starts the part of a device.
func (d *director) start(one *device) error {
	args := []string{one.role, "--session", d.stage.session, "--name", one.Name, "--speed", strconv.FormatFloat(d.Speed, 'g', -1, 64)}
	for flag, given := range map[string]bool{"--websocket": one.socket, "--fragile": one.fragile, "--force": one.force} {
		if given {
			args = append(args, flag)
		}
	}
	environ := []string{"CAIRN_URL=" + d.stage.url, "CAIRN_API_KEY=" + one.owner.key, "CAIRN_DEVICE=" + one.ID}
	if one.share != "" {
		environ = append(environ, "CAIRN_SHARE_TOKEN="+one.share)
	}
	started, err := d.crew.start(one.Name, environ, args)
	one.process = started
	return err
}

// hear takes what a part said.
func (d *director) hear(ctx context.Context, said heard) error {
	one := d.device(said.from)
	switch {
	case said.err != nil:
		return said.err
	case one == nil:
		return fmt.Errorf("%s: %w", said.from.name, errEndedEarly) // only a server says nothing else
	case said.ended:
		return d.ended(one)
	case one.role == roleExecutor:
		return d.hearExecutor(ctx, one, said.report)
	default:
		return d.hearFollower(one, said.report)
	}
}

func (d *director) device(p *process) *device {
	for _, one := range append([]*device{d.stage.laptop, d.stage.workstation}, d.stage.followers()...) {
		if one.process == p {
			return one
		}
	}
	return nil
}

// ended is fine for executors, which said why, and for followers that are done.
func (d *director) ended(one *device) error {
	if _, done := d.tallies[one]; done || one.role == roleExecutor {
		return nil
	}
	return fmt.Errorf("%s: %w", one.Name, errEndedEarly)
}

func (d *director) hearExecutor(ctx context.Context, one *device, said report) error {
	switch said.Kind {
	case saidClaimed:
		if one.force {
			return d.note("%s takes the lease by force and goes on after event %d", one.Name, said.Seq)
		}
		return d.note("%s takes the lease and begins", one.Name)
	case saidLost:
		d.lost++
		return d.note("%s has lost the lease and stops", one.Name)
	case saidDone:
		if err := d.note("%s is done and gives the lease back", one.Name); err != nil {
			return err
		}
		return d.conclude(ctx)
	default:
		return nil
	}
}

// conclude tells the followers where the log ends: nobody is left who appends.
func (d *director) conclude(ctx context.Context) error {
	now, err := d.stage.reader.GetSession(ctx, d.stage.session)
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	for _, one := range d.stage.followers() {
		if one.process == nil {
			return fmt.Errorf("%s did not join before the end", one.Name)
		}
		one.process.tell(order{Until: now.LastSeq})
	}
	return nil
}

func (d *director) hearFollower(one *device, said report) error {
	follower := d.scene.Follower(one.ID)
	switch said.Kind {
	case saidEvent:
		follower.Seq = said.Event.Seq
		return d.event(*said.Event)
	case saidLease:
		if one == d.stage.desktop { // one witness is enough for what all see
			d.scene.Lease(*said.Lease)
		}
	case saidPresence:
		if one == d.stage.desktop {
			d.scene.Presence(*said.Presence)
		}
	case saidConnected:
		return d.connected(one, follower, said.Seq)
	case saidLost:
		if follower.State == view.Offline {
			return nil // an attempt that failed
		}
		follower.State = view.Offline
		follower.Lost++
		return d.note("%s loses its connection after event %d", one.Name, said.Seq)
	case saidDone:
		follower.State = view.Done
		d.tallies[one] = *said.Tally
	case saidClaimed: // an executor's
	}
	return nil
}

func (d *director) connected(one *device, follower *view.Follower, after int64) error {
	first := follower.State == view.Away
	follower.State = view.Live
	switch {
	case !first:
		return d.note("%s is back and gets what it missed since event %d", one.Name, after)
	case one == d.stage.webBrowser:
		return d.note("%s joins late, by a link, and gets everything from event 1", one.Name)
	}
	if err := d.note("%s follows over %s", one.Name, one.via()); err != nil {
		return err
	}
	if d.scene.Follower(d.stage.phone.ID).State == view.Live && d.scene.Follower(d.stage.desktop.ID).State == view.Live {
		return d.start(d.stage.laptop)
	}
	return nil
}

// event shows an event the first time somebody tells of it, and acts on its cue.
func (d *director) event(event wire.Event) error {
	if !d.scene.Event(event) {
		return nil
	}
	if d.terminal == nil {
		if err := d.print(d.scene.Plain(event)); err != nil {
			return err
		}
	}
	cue := d.run.Cue(event)
	switch {
	case cue == nil:
		return nil
	case cue.Do == script.ActJoin:
		return d.start(d.stage.webBrowser)
	case cue.Do == script.ActTakeover:
		return d.start(d.stage.workstation)
	default:
		return nil // the viewer's or the editor's
	}
}

// note says what the log does not tell.
func (d *director) note(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	d.scene.Note(text)
	if d.terminal != nil {
		return nil
	}
	return d.print(d.scene.PlainNote(text))
}
