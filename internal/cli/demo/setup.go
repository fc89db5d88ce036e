package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	"github.com/cairnsync/cairn/internal/identity"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	sessionTitle = "Invoices are one cent off"
	readyWithin  = 30 * time.Second
	readyPoll    = 10 * time.Millisecond
)

// person is a user of the demonstration.
type person struct {
	id, keyID, key, email string
}

// device is a device of the demonstration, and the part it plays.
type device struct {
	view.Device

	owner   *person
	role    string
	socket  bool
	fragile bool
	force   bool
	share   string // a link's token

	process *process
}

func (d *device) via() string {
	if d.socket {
		return "WebSocket"
	}
	return "SSE"
}

// stage is what a demonstration plays on.
type stage struct {
	url     string
	session string
	reader  *client.Client // as the owner's laptop

	ana, bogdan, carla         *person
	laptop, workstation        *device // the executors
	phone, desktop, webBrowser *device // the followers
}

func (s *stage) devices() []view.Device {
	var all []view.Device
	for _, d := range append([]*device{s.laptop, s.workstation}, s.followers()...) {
		all = append(all, d.Device)
	}
	return all
}

func (s *stage) followers() []*device { return []*device{s.phone, s.desktop, s.webBrowser} }

// setUp starts a server and makes the people, their devices and the session. Nothing of it was there before.
func setUp(ctx context.Context, o Options, c *crew, folder string) (*stage, error) {
	database := o.Database
	if database == "" {
		database = "sqlite:" + filepath.Join(folder, "cairn.db")
	}
	s := &stage{}
	var err error
	if s.url, err = startServer(ctx, c, database, folder); err != nil {
		return nil, err
	}
	suffix := "-" + o.Env.RandomID()[:8] // the database may know others of that name
	for name, at := range map[string]**person{"ana": &s.ana, "bogdan": &s.bogdan, "carla": &s.carla} {
		if *at, err = addPerson(ctx, c, database, name+suffix); err != nil {
			return nil, err
		}
	}
	newDevice := func(name string, owner *person, role string) *device {
		return &device{Device: view.Device{ID: o.Env.RandomID(), Name: name}, owner: owner, role: role}
	}
	s.laptop = newDevice("Ana's laptop", s.ana, roleExecutor)
	s.workstation = newDevice("Ana's workstation", s.ana, roleExecutor)
	s.phone = newDevice("Ana's phone", s.ana, roleViewer)
	s.desktop = newDevice("Bogdan's desktop", s.bogdan, roleEditor)
	s.webBrowser = newDevice("Carla's browser", s.carla, roleViewer)
	s.workstation.force, s.phone.fragile, s.desktop.socket, s.webBrowser.socket = true, true, true, true
	return s, s.share(ctx)
}

// startServer answers the URL of a new server.
func startServer(ctx context.Context, c *crew, database, folder string) (string, error) {
	ready := filepath.Join(folder, "ready")
	server, err := c.start(roleServer, []string{
		"CAIRN_DATABASE=" + database, "CAIRN_LISTEN=127.0.0.1:0", "CAIRN_READY_FILE=" + ready, "CAIRN_LOG_LEVEL=warn",
	}, []string{roleServer, "--folder", folder})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		content, err := os.ReadFile(ready)
		if err == nil {
			return strings.TrimSpace(string(content)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("wait for the server: %w", err)
		}
		select {
		case <-poll.C:
		case <-server.done:
			return "", fmt.Errorf("start the server: it ended%s", server.errs.quoted())
		case <-ctx.Done():
			return "", fmt.Errorf("wait for the server: %w%s", ctx.Err(), server.errs.quoted())
		}
	}
}

// addPerson makes a user as an administrator does.
func addPerson(ctx context.Context, c *crew, database, name string) (*person, error) {
	email := name + "@demo.example"
	var made identity.NewUser
	err := c.run(ctx, []string{"CAIRN_DATABASE=" + database}, []string{"user", "add", name, "--email", email, "--json"}, &made)
	if err != nil {
		return nil, err
	}
	return &person{id: made.UserID, keyID: made.KeyID, key: made.APIKey, email: email}, nil
}

// share makes the session and gives it to the others: to Bogdan by address, to Carla by a link.
func (s *stage) share(ctx context.Context) error {
	owner, err := client.New(client.Config{
		BaseURL: s.url, Key: s.ana.key, Device: client.Device{ID: s.laptop.ID, Platform: wire.PlatformAgent, Name: s.laptop.Name},
	})
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	s.reader = owner
	made, err := owner.CreateSession(ctx, client.NewSession{Title: sessionTitle})
	if err != nil {
		return fmt.Errorf("create session: %w", err)
	}
	s.session = made.ID
	_, err = owner.AddShare(ctx, made.ID, client.NewShare{
		PrincipalType: wire.PrincipalUser, Email: s.bogdan.email, Role: wire.RoleEditor,
	})
	if err != nil {
		return fmt.Errorf("share session: %w", err)
	}
	link, err := owner.AddShare(ctx, made.ID, client.NewShare{PrincipalType: wire.PrincipalLink, Role: wire.RoleViewer})
	if err != nil {
		return fmt.Errorf("share session by a link: %w", err)
	}
	s.webBrowser.share = link.Token
	return nil
}

// dismiss shuts the people of the demonstration out of a database that outlives it. The first person of a
// database owns it, and somebody has to: that one stays, without a key.
func (s *stage) dismiss(ctx context.Context, c *crew, database string) error {
	for _, p := range []*person{s.ana, s.bogdan, s.carla} {
		var answer struct{}
		environ := []string{"CAIRN_DATABASE=" + database}
		if err := c.run(ctx, environ, []string{"key", "revoke", p.keyID, "--json"}, &answer); err != nil {
			return err
		}
		err := c.run(ctx, environ, []string{"user", "disable", p.id, "--json"}, &answer)
		if err != nil && !strings.Contains(err.Error(), "needs an active person who owns it") {
			return err
		}
	}
	return nil
}
