package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/server"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Node runs a server until its input ends; it is the server's side of a measurement. It says its URL
// first, and gives memory back when told to collect.
//
// A profile is the file that its CPU profile is written to, "" for none.
func Node(ctx context.Context, settings []string, profile string, in io.Reader, out io.Writer) error {
	if profile != "" {
		file, err := os.Create(profile)
		if err != nil {
			return fmt.Errorf("write profile: %w", err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	loaded, _, err := config.Load(config.Sources{Set: settings})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	node, err := server.New(ctx, server.Options{Config: loaded, Log: log, Env: env.Real()})
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	say(out, node.URL())
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if lines.Text() == "collect" {
			debug.FreeOSMemory()
			if profile != "" {
				err = errors.Join(err, heap(profile+".heap"))
			}
		}
		say(out, "ok")
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), loaded.ShutdownTimeout)
	defer cancel()
	return errors.Join(err, node.Stop(stopping))
}

func heap(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}

func say(out io.Writer, line string) {
	_, _ = fmt.Fprintln(out, line) // whoever listened has gone, and the input will end
}

// site is a server process on a fresh database with one account.
type site struct {
	*child

	bench    *bench
	env      *env.Env
	database string
	key      string
}

// open starts a server; settings are additional ones.
func (b *bench) open(ctx context.Context, engine string, settings ...string) (*site, error) {
	s := &site{bench: b, env: b.env, database: b.databaseURL(engine)}
	var err error
	if s.key, err = s.account(ctx); err != nil {
		return nil, err
	}
	return s, s.start(ctx, settings...)
}

// start starts the server's process.
func (s *site) start(ctx context.Context, settings ...string) (err error) {
	args := []string{"node", "--set", "listen=127.0.0.1:0", "--set", "database=" + s.database}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	if s.bench.Profiles != "" {
		args = append(args, "--profile", filepath.Join(s.bench.Profiles, s.env.NewID()+".pprof"))
	}
	s.child, err = s.bench.spawn(ctx, args...)
	return err
}

// account makes a user straight in the database.
func (s *site) account(ctx context.Context) (string, error) {
	db, err := storage.Open(ctx, storage.Options{URL: s.database})
	if err != nil {
		return "", err
	}
	user, err := identity.New(db, signal.NewLocal(), s.env).AddUser(ctx, "bench-"+s.env.RandomID(), nil)
	if err != nil {
		return "", err
	}
	return user.APIKey, db.Close()
}

// device is one install of the account.
func (s *site) device() (*client.Client, string, error) {
	id := s.env.RandomID()
	c, err := client.New(client.Config{BaseURL: s.hello, Key: s.key, Device: client.Device{ID: id, Platform: wire.PlatformAgent}})
	return c, id, err
}

// executor holds the lease of a session and appends to it.
type executor struct {
	*pipe

	session string
	client  *client.Client
	release context.CancelFunc // of the heartbeats
}

// execute opens a session and takes its lease for a new device, which is renewed until close.
func (s *site) execute(ctx context.Context) (*executor, error) {
	c, device, err := s.device()
	if err != nil {
		return nil, err
	}
	made, err := c.CreateSession(ctx, client.NewSession{})
	if err != nil {
		return nil, err
	}
	if _, err := c.ClaimLease(ctx, made.ID, client.Claim{}); err != nil {
		return nil, err
	}
	e := &executor{session: made.ID, client: c}
	if e.pipe, err = s.dial(ctx, device); err != nil {
		return nil, err
	}
	beating, stop := context.WithCancel(ctx)
	e.release = stop
	go e.beat(beating)
	return e, nil
}

// heartbeat is well within the term of a lease.
const heartbeat = 8 * time.Second

func (e *executor) beat(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = e.client.HeartbeatLease(ctx, e.session) // a lost lease shows in the next append
		}
	}
}

func (e *executor) close() {
	e.release()
	e.client.Close()
	e.pipe.close()
}

// append posts a body to the session's log.
func (e *executor) append(body []byte) error {
	return e.post("/v1/sessions/"+e.session+"/events", body)
}
