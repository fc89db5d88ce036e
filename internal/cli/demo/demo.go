package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/cli/demo/script"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/env"
)

// Bounds of Options.Speed.
const (
	MinSpeed = 0.1
	MaxSpeed = 100
)

const (
	playTime      = 25 * time.Second // of the play at speed 1, generously
	extraTime     = 90 * time.Second // for slow machines
	dismissWithin = 10 * time.Second
	redrawEvery   = 80 * time.Millisecond
)

// Options say how to run the demonstration.
type Options struct {
	Database string  // URL; "" is a temporary SQLite file
	Speed    float64 // 1 is as recorded, MinSpeed to MaxSpeed
	Out      io.Writer
	// Size answers the columns and lines of the terminal that Out is; nil when it is none.
	Size    func() (width, height int)
	Render  render.Renderer
	Environ []string // NAME=value
	Env     *env.Env
}

// ErrFailed is a demonstration that did not show what it must.
var ErrFailed = errors.New("the demonstration failed")

// Run runs the demonstration. Its error is ErrFailed with what is wrong, or why it could not be carried out.
func Run(ctx context.Context, o Options) (err error) {
	if o.Speed < MinSpeed || o.Speed > MaxSpeed {
		return fmt.Errorf("--speed is %v to %v", MinSpeed, float64(MaxSpeed))
	}
	run, err := script.Load()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "cairn-demo-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	c, err := newCrew(o.Environ)
	if err != nil {
		return err
	}
	defer c.end()
	ctx, cancel := context.WithTimeout(ctx, extraTime+time.Duration(float64(playTime)/o.Speed))
	defer cancel()
	d := &director{Options: o, crew: c, run: run, started: o.Env.Now(), tallies: map[*device]tally{}}
	return d.direct(ctx, folder)
}

// direct plays everything and says what came of it.
func (d *director) direct(ctx context.Context, folder string) (err error) {
	stage, err := setUp(ctx, d.Options, d.crew, folder)
	if stage != nil && d.Database != "" && stage.carla != nil {
		defer func() { err = errors.Join(err, d.dismiss(ctx, stage)) }()
	}
	if err != nil {
		return err
	}
	defer stage.reader.Close()
	d.stage = stage
	d.scene = view.New(sessionTitle, engine(d.Database), stage.devices(), d.Render)
	for _, one := range stage.followers() {
		d.scene.Follow(one.Device, one.via())
	}
	if err := d.watch(ctx); err != nil {
		return err
	}
	return d.judge(ctx)
}

func (d *director) dismiss(ctx context.Context, s *stage) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dismissWithin)
	defer cancel()
	return s.dismiss(ctx, d.crew, d.Database)
}

func engine(database string) string {
	if database == "" || strings.HasPrefix(database, "sqlite:") {
		return "SQLite"
	}
	return "PostgreSQL"
}

// watch plays, shown on a terminal in place or in plain lines.
func (d *director) watch(ctx context.Context) (err error) {
	if d.Size == nil {
		return d.play(ctx)
	}
	if d.terminal, err = view.Enter(d.Out); err != nil {
		return err
	}
	err = d.play(ctx)
	err = errors.Join(err, d.terminal.Leave())
	d.terminal = nil
	if err != nil {
		return err
	}
	return d.print(d.picture()...) // the last picture stays readable
}

func (d *director) picture() []string {
	d.scene.Elapsed = d.Env.Now().Sub(d.started)
	width, height := d.Size()
	return d.scene.Lines(width, height)
}

func (d *director) print(lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(d.Out, line); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
