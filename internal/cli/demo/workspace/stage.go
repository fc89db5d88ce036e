package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// person is somebody of the team.
type person struct {
	called  string // in the story
	name    string // of the user, and the handle
	id      string
	devices []*device
}

// stage is what a demonstration plays on. It belongs to one goroutine; only the devices' goroutines are others.
type stage struct {
	Options

	folder   string
	database string
	program  string
	environ  []string // of every process; nothing in it is about cairn
	started  time.Time

	server  *server
	ada     *person
	bruno   *person
	chen    *person
	dara    *person
	emil    *person
	laptop  *device // Ada's
	phone   *device // Ada's
	desktop *device // Bruno's
	tablet  *device // Bruno's

	everyone, leads  wire.Group
	workshop, studio wire.Space
	general, private wire.Channel // private: granted to the leads only
	ideas, roadmap   wire.Channel // forums
	uploads          wire.Channel // Chen's and Emil's
	resyncs          map[*device]int
}

func newStage(o Options, folder string) (*stage, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	s := &stage{
		Options: o, folder: folder, database: o.Database, program: program, started: o.Env.Now(),
		resyncs: map[*device]int{},
	}
	if s.database == "" {
		s.database = "sqlite:" + filepath.Join(folder, "cairn.db")
	}
	for _, pair := range o.Environ {
		if !strings.HasPrefix(pair, "CAIRN_") {
			s.environ = append(s.environ, pair)
		}
	}
	s.ada, s.bruno, s.chen, s.dara, s.emil = newPerson("Ada"), newPerson("Bruno"), newPerson("Chen"), newPerson("Dara"), newPerson("Emil")
	s.laptop, s.phone = s.device(s.ada, "laptop"), s.device(s.ada, "phone")
	s.desktop, s.tablet = s.device(s.bruno, "desktop"), s.device(s.bruno, "tablet")
	s.device(s.chen, "laptop")
	s.device(s.dara, "phone")
	s.device(s.emil, "desktop")
	return s, nil
}

func newPerson(called string) *person {
	return &person{called: called, name: strings.ToLower(called)}
}

func (s *stage) people() []*person { return []*person{s.ada, s.bruno, s.chen, s.dara, s.emil} }

func (s *stage) devices() []*device {
	var all []*device
	for _, p := range s.people() {
		all = append(all, p.devices...)
	}
	return all
}

// first is the device a person works on.
func (p *person) first() *device { return p.devices[0] }

// end stops every device and the server.
func (s *stage) end(ctx context.Context) error {
	var failed error
	for _, d := range s.devices() {
		failed = errors.Join(failed, d.close())
	}
	failed = errors.Join(failed, s.dismiss(context.WithoutCancel(ctx)))
	return errors.Join(failed, s.server.stop())
}

// dismiss shuts the people of the demonstration out of a database that outlives it, but for the owner, whom an instance
// is never without: nobody has a password or a sign-in of hers.
func (s *stage) dismiss(ctx context.Context) error {
	if s.Database == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	var failed error
	for _, p := range s.people()[1:] {
		var answer struct{}
		if p.id != "" {
			failed = errors.Join(failed, s.run(ctx, "", &answer, "user", "disable", p.id))
		}
	}
	return failed
}

// together lets every device do something at once and waits for all.
func together(devices []*device, do func(*device) error) error {
	failures := make(chan error, len(devices))
	for _, d := range devices {
		go func() { failures <- do(d) }()
	}
	var failed error
	for range devices {
		failed = errors.Join(failed, <-failures)
	}
	return failed
}

// level waits until devices have everything that has happened up to now: first everybody's writes, then what came of them.
func (s *stage) level(ctx context.Context, devices ...*device) error {
	for _, part := range []func(*device) error{
		func(d *device) error { return d.account.Outbox().Idle(ctx) },
		func(d *device) error { return d.level(ctx) },
	} {
		err := together(devices, func(d *device) error {
			if err := part(d); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// check counts what devices should have received and did not.
func (s *stage) check(ctx context.Context, devices ...*device) error {
	if err := s.level(ctx, devices...); err != nil {
		return err
	}
	return together(devices, func(d *device) error {
		if err := d.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		return nil
	})
}
