// Package postgres runs private PostgreSQL clusters for tests, demonstrations and benchmarks.
//
// A cluster lives in its own folder and listens on a free port of 127.0.0.1, without passwords. It
// ends with the process that started it, however that process ends: a watchdog waits for the end of
// a pipe that only the starter holds, then stops the server and removes the folder. Start, Restart,
// Stop and Kill9 block until the server accepts connections or is gone; a Cluster is not safe for
// concurrent use, its URL is. It needs initdb and postgres (PATH or /usr/lib/postgresql) and Unix.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options are the properties of a cluster. The zero value is a fast one for tests.
type Options struct {
	// Fsync makes commits durable on the disk, as in production; without it a cluster survives the
	// death of its processes, but not of the machine.
	Fsync bool
	// MaxConnections defaults to 400.
	MaxConnections int
	// Settings are more settings of the server, by name.
	Settings map[string]string
}

// Cluster is a running PostgreSQL server.
type Cluster struct {
	dir      string
	data     string
	bin      string
	port     int
	owner    *account
	options  Options
	server   *exec.Cmd
	lifeline *os.File
	watchdog *exec.Cmd
}

// startTimeout bounds how long a server may take to accept connections.
const startTimeout = 60 * time.Second

// Start makes a cluster in dir and starts it. An empty dir is a new temporary folder; otherwise every
// folder above dir must be open to the account that runs the server (never root). Either way the
// folder is removed when the cluster ends.
func Start(dir string, options Options) (*Cluster, error) {
	bin, err := findPrograms()
	if err != nil {
		return nil, err
	}
	owner, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err = prepareFolder(dir, owner)
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, data: filepath.Join(dir, "data"), bin: bin, owner: owner, options: options}
	if err := c.create(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.Restart(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// URL is the address of a database of the cluster, for its superuser; an empty name is "postgres".
func (c *Cluster) URL(database string) string {
	if database == "" {
		database = "postgres"
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.port, database)
}

// Kill9 kills the server without warning, as a crash would, and waits until the last of its
// processes is gone.
func (c *Cluster) Kill9() error {
	if c.server == nil {
		return errors.New("kill server: it does not run")
	}
	pid := c.server.Process.Pid
	children, err := childrenOf(pid)
	if err != nil {
		return err
	}
	if err := c.server.Process.Kill(); err != nil {
		return fmt.Errorf("kill server: %w", err)
	}
	_ = c.server.Wait() // the way it ended is the one asked for
	c.server = nil
	c.dismissWatchdog()
	return waitGone(children, startTimeout)
}

// Restart starts the server on its folder and port; one that runs is stopped first.
func (c *Cluster) Restart() error {
	if err := c.halt(); err != nil {
		return err
	}
	if c.port == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.port = port
	}
	if err := c.launch(); err != nil {
		return err
	}
	return c.awaitReady()
}

// Stop stops the server at once and removes its folder.
func (c *Cluster) Stop() error {
	err := c.halt()
	return errors.Join(err, os.RemoveAll(c.dir))
}

// halt stops the server at once (what is committed stays); the folder remains.
func (c *Cluster) halt() error {
	if c.server == nil {
		return nil
	}
	children, err := childrenOf(c.server.Process.Pid)
	if err != nil {
		return err
	}
	if err := c.server.Process.Signal(quitSignal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop server: %w", err)
	}
	_ = c.server.Wait() // an immediate shutdown ends with a status of its own
	c.server = nil
	c.dismissWatchdog()
	return waitGone(children, startTimeout)
}

func (c *Cluster) create() error {
	initdb := exec.Command(filepath.Join(c.bin, "initdb"), "--pgdata="+c.data, "--username=postgres", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	initdb.Dir = c.dir
	c.owner.applyTo(initdb)
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("make cluster: %w: %s", err, output)
	}
	return nil
}

func (c *Cluster) launch() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer log.Close()
	server := exec.Command(filepath.Join(c.bin, "postgres"), c.arguments()...)
	server.Dir, server.Stdout, server.Stderr = c.dir, log, log
	c.owner.applyTo(server)
	if err := server.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	c.server = server
	return c.watch()
}

func (c *Cluster) arguments() []string {
	fsync := "off"
	if c.options.Fsync {
		fsync = "on"
	}
	connections := c.options.MaxConnections
	if connections == 0 {
		connections = 400
	}
	arguments := []string{"-D", c.data, "-h", "127.0.0.1", "-p", strconv.Itoa(c.port)}
	settings := map[string]string{
		"unix_socket_directories": "", "fsync": fsync, "max_connections": strconv.Itoa(connections),
		"shared_buffers": "64MB", "dynamic_shared_memory_type": "mmap", "max_wal_size": "1GB",
		"restart_after_crash": "on", "log_checkpoints": "off",
	}
	maps.Copy(settings, c.options.Settings)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		arguments = append(arguments, "-c", name+"="+settings[name])
	}
	return arguments
}

// awaitReady returns when the server accepts connections.
func (c *Cluster) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.URL(""))
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil || !alive(c.server.Process.Pid) {
			return fmt.Errorf("wait for server: %w; its log: %s", err, c.logTail())
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (c *Cluster) logTail() string {
	log, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	if len(log) > 2000 {
		log = log[len(log)-2000:]
	}
	return string(log)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// findPrograms answers the folder that holds initdb and postgres. Debian keeps them outside PATH,
// and PATH may hold links to single programs, which look for the others beside their real file.
func findPrograms() (string, error) {
	var folders []string
	if found, err := exec.LookPath("postgres"); err == nil {
		if program, err := filepath.EvalSymlinks(found); err == nil {
			folders = append(folders, filepath.Dir(program))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL: %w", err)
		}
		sort.Sort(sort.Reverse(sort.StringSlice(matches)))
		folders = append(folders, matches...)
	}
	for _, folder := range folders {
		if isFile(filepath.Join(folder, "initdb")) && isFile(filepath.Join(folder, "postgres")) {
			return folder, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: these tests need its programs initdb and postgres " +
		"in PATH or /usr/lib/postgresql/*/bin (Debian and Ubuntu: apt install postgresql; macOS: brew install postgresql), " +
		"or a running server named by CAIRN_TEST_POSTGRES")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func trimmedLines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
