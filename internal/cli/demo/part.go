package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/demo/network"
	"github.com/cairnsync/cairn/internal/cli/demo/script"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// The roles.
const (
	roleServer   = "server"
	roleExecutor = "executor"
	roleViewer   = "viewer"
	roleEditor   = "editor"
)

// Roles lists what Play can be.
func Roles() []string { return []string{roleServer, roleExecutor, roleViewer, roleEditor} }

// Part is what one process of the demonstration does.
type Part struct {
	Role    string
	Session string // its server id
	Name    string // of the device
	Speed   float64
	Force   bool // an executor takes the lease from who holds it
	Socket  bool // a viewer follows over WebSocket
	Fragile bool // a viewer loses its connection at the cues for it
	Folder  string

	URL, Key, Device, ShareToken string // from the environment

	In  io.Reader // orders; its end is the end of the part
	Out io.Writer // reports
	Env *env.Env
	// Serve runs `cairn serve` until its context ends.
	Serve func(context.Context) error
}

// report is what a part tells Run, one JSON object a line.
type report struct {
	Kind     reportKind         `json:"kind"`
	Event    *wire.Event        `json:"event,omitempty"`
	Lease    *client.LeaseFrame `json:"lease,omitempty"`
	Presence *wire.Presence     `json:"presence,omitempty"`
	Seq      int64              `json:"seq,omitempty"`
	Tally    *tally             `json:"tally,omitempty"`
}

type reportKind string

const (
	saidConnected reportKind = "connected" // a stream is open
	saidLost      reportKind = "lost"      // it ended; or, of an executor, the lease
	saidEvent     reportKind = "event"
	saidLease     reportKind = "lease"
	saidPresence  reportKind = "presence"
	saidClaimed   reportKind = "claimed" // the lease, with Seq the end of the log then
	saidDone      reportKind = "done"    // all is well, with the Tally of a follower
)

// order is what Run tells a follower: to end when it has the event with this seq.
type order struct {
	Until int64 `json:"until"`
}

// errLeft is the end of a part's standard input.
var errLeft = errors.New("the demonstration is over")

// Play plays one part until it is over, ctx ends, or the standard input does.
func Play(ctx context.Context, p Part) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	orders := make(chan order, 1)
	go p.listen(orders, cancel)
	if p.Role == roleServer {
		return p.serve(ctx)
	}
	run, err := script.Load()
	if err != nil {
		return err
	}
	a := &actor{Part: p, run: run}
	switch p.Role {
	case roleExecutor:
		err = a.execute(ctx)
	case roleViewer, roleEditor:
		err = a.follow(ctx, orders)
	default:
		err = fmt.Errorf("%q is no role", p.Role)
	}
	if errors.Is(context.Cause(ctx), errLeft) {
		return nil
	}
	return err
}

// listen takes orders until the input ends, which ends the part.
func (p Part) listen(orders chan<- order, leave context.CancelCauseFunc) {
	lines := bufio.NewScanner(p.In)
	for lines.Scan() {
		var given order
		if json.Unmarshal(lines.Bytes(), &given) == nil {
			orders <- given
		}
	}
	leave(errLeft)
}

// serve is the server. Its folder goes with it, also when nobody is left to remove it.
func (p Part) serve(ctx context.Context) error {
	err := p.Serve(ctx)
	if p.Folder != "" {
		err = errors.Join(err, os.RemoveAll(p.Folder))
	}
	return err
}

// actor is a part that is a client of the server.
type actor struct {
	Part

	run script.Recording

	mu sync.Mutex // guards Out
}

// say reports to Run. A Run that does not read any more has ended, and so does the standard input.
func (a *actor) say(r report) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // payloads stay as they came
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.Out.Write(line.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// paced is how long something takes at the speed that was asked for.
func (p Part) paced(d time.Duration) time.Duration { return time.Duration(float64(d) / p.Speed) }

func (a *actor) connect(platform wire.Platform, l *network.Line) (*client.Client, error) {
	made, err := client.New(client.Config{
		BaseURL: a.URL, Key: a.Key, ShareToken: a.ShareToken, HTTP: l.Client(),
		Device: client.Device{ID: a.Device, Platform: platform, Name: a.Name},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return made, nil
}
