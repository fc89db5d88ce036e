package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
)

func TestMain(m *testing.M) {
	acpagent.Main()
	goleak.VerifyTestMain(m)
}

func TestWrongUsageIsExplained(t *testing.T) {
	t.Parallel()
	s := newShell(t, "CAIRN_API_KEY=codai_x", "CAIRN_URL=http://127.0.0.1:1")
	for _, one := range []struct {
		args  string
		parts []string
	}{
		{"", []string{"Available Commands", "say which command"}},
		{"session", []string{"Available Commands", "say which command"}},
		{"nope", []string{`"nope" is no command of cairn`, "cairn --help"}},
		{"sesion list", []string{"session?"}},
		{"session lst", []string{"did you mean list"}},
		{"version --loud", []string{"unknown flag: --loud", "cairn version --help"}},
		{"version now", []string{"call it as `cairn version`"}},
		{"session answer S", []string{"call it as `cairn session answer SESSION ASK TEXT...`"}},
		{"session approve S --id x", []string{"--id needs ASK"}},
		{"session show a b", []string{"call it as `cairn session show SESSION`"}},
		{"session tail S -n x", []string{`--lines is a whole number, not "x"`}},
		{"session tail S -n -1", []string{"--lines and --after are 0 or more"}},
		{"session list --limit abc", []string{`--limit is a whole number, not "abc"`}},
		{"session list --limit 0", []string{"--limit is 1 to 200"}},
		{"session delete S", []string{"say --yes"}},
		{"completion tcsh", []string{`"tcsh" is no command of cairn completion`}},
		{"org add o bob", []string{"call it as `cairn org add ORG (--user ID | --email ADDRESS)`"}},
		{"dispatch --open", []string{"SESSION [TEXT...] --device DEVICE`"}},
		{"user list --database /tmp/foo.db", []string{"write sqlite:/tmp/foo.db"}},
		{"session share S", []string{"exactly one of --user, --email, --org and --link"}},
		{"session share S --link --org o", []string{"exactly one of"}},
		{"session share S --link --role king", []string{"--role is viewer, editor or owner"}},
		{"session share S --link --expires never", []string{"--expires is a duration such as 24h"}},
		{"dispatch S hello", []string{"--device is missing"}},
		{"dispatch S --device d", []string{"either TEXT or --open"}},
		{"dispatch S --device d --open hello", []string{"either TEXT or --open"}},
		{"session send S -", []string{"standard input is empty"}},
		{"org add o", []string{"exactly one of --user and --email"}},
		{"run", []string{"say which agent to run"}},
		{"run --root /no/such/folder -- agent", []string{"--root"}},
		{"agent", []string{"say which agent to run: --command"}},
		{"agent --command x --linger 0s", []string{"--linger is more than 0"}},
		{"config --set listn=x", []string{"did you mean listen?"}},
		{"user add x --database mysql:x", []string{"database", "allowed is sqlite:PATH"}},
	} {
		s.refused(exitUsage, one.parts, strings.Fields(one.args)...)
	}
	s.refused(exitUsage, []string{"call it as"}, "session", "send", "", "text")
}

func TestClientNeedsItsEnvironment(t *testing.T) {
	t.Parallel()
	newShell(t).refused(exitUsage, []string{"CAIRN_API_KEY is not set", "cairn user add"}, "session", "list")
	newShell(t, "CAIRN_API_KEY=k", "CAIRN_DEVICE=x").refused(exitUsage, []string{"CAIRN_DEVICE must be a UUID"}, "session", "list")
	newShell(t, "CAIRN_API_KEY=k", "CAIRN_URL=ftp://x").refused(exitUsage, []string{"http or https", "CAIRN_URL"}, "session", "list")
	newShell(t, "CAIRN_API_KEY=k", "CAIRN_URL=127.0.0.1:8797").refused(exitUsage, []string{"http:// is missing: http://127.0.0.1:8797"}, "session", "list")
	newShell(t, "CAIRN_API_KEY=a secret").refused(exitUsage, []string{"CAIRN_API_KEY"}, "session", "list")
}

func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newShell(t, "CAIRN_API_KEY=codai_secret", "CAIRN_URL=http://127.0.0.1:1")
	got := s.call("session", "create")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "cannot reach http://127.0.0.1:1")
	require.Contains(t, got.errs, "Is the server running there?")
	require.NotContains(t, got.errs, "secret")
}

func TestEveryCommandIsComplete(t *testing.T) {
	t.Parallel()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Short, cmd.CommandPath())
		require.False(t, strings.HasSuffix(cmd.Short, "."), cmd.CommandPath())
		require.True(t, cmd.RunE != nil && cmd.Args != nil, cmd.CommandPath())
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(newRoot(&app{env: env.Real()}))
}

func TestHelpAndCompletion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Contains(t, s.done("session", "tail", "--help"), "--follow")
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, s.done("completion", name), "cairn")
	}
	require.Contains(t, s.call("__complete", "config", "--set", "").out, "stream.ping=")
	require.Contains(t, s.call("__complete", "session", "share", "S", "--role", "").out, "editor")
}

func TestConfigShowsEveryValue(t *testing.T) {
	t.Parallel()
	s := newShell(t, "CAIRN_LOG_LEVEL=debug")
	text := s.done("config", "--set", "stream.ping=20s", "--database", "postgres://u:hunter2@h/d")
	require.NotContains(t, text, "hunter2")
	require.Regexp(t, `(?m)^stream\.ping +20s +--set$`, text)
	require.Regexp(t, `(?m)^log\.level +debug +environment CAIRN_LOG_LEVEL$`, text)
	require.Regexp(t, `(?m)^database +postgres://u:xxxxx@h/d +flag$`, text)
	values := decoded[struct{ Values []config.Value }](s, "config").Values
	require.Len(t, values, len(config.Keys()))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	require.Contains(t, s.done("version"), "cairn ")
	require.Equal(t, s.done("version"), s.done("--version"))
	require.NotEmpty(t, decoded[versionInfo](s, "version").Go)
}

func TestFirstRunsAgreeOnOneDevice(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ids := make([]string, 32)
	failures := make([]error, len(ids))
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			a := &app{env: env.Real(), environ: s.environ}
			ids[i], failures[i] = a.deviceID()
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(failures...))
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	files, err := filepath.Glob(filepath.Join((&app{environ: s.environ}).getenv("XDG_CONFIG_HOME"), "cairn", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1, "no draft is left over")
}

func TestDeviceFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "cairn", "device")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("garbage"), 0o600))
	a := &app{env: env.Real(), environ: []string{"XDG_CONFIG_HOME=" + folder}}
	_, err := a.deviceID()
	require.ErrorContains(t, err, "remove it to get a new one")

	a.environ = append(a.environ, "CAIRN_DEVICE=0190A000-0000-7000-8000-00000000000F")
	id, err := a.deviceID()
	require.NoError(t, err)
	require.Equal(t, "0190a000-0000-7000-8000-00000000000f", id)

	_, err = (&app{env: env.Real()}).deviceID()
	require.ErrorContains(t, err, "set CAIRN_DEVICE to a UUID")
}

func TestSchemaIsMadeByTheFirstUser(t *testing.T) {
	t.Parallel()
	for _, engine := range testkit.Engines() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, "CAIRN_DATABASE="+testkit.EmptyURL(t, engine))
			schema := decoded[schemaInfo](s, "migrate", "status")
			require.Zero(t, schema.Current)
			require.Len(t, schema.Pending, int(schema.Latest))
			require.Contains(t, s.done("migrate", "status"), "`cairn migrate up` applies")
			got := s.call("user", "add", "alice")
			require.Equal(t, exitDone, got.code, got.errs)
			require.Contains(t, got.errs, "made ")
			s.done("user", "add", "bob")
			require.Empty(t, decoded[schemaInfo](s, "migrate", "status").Pending)
			require.Equal(t, schema.Latest, decoded[schemaInfo](s, "migrate", "up").Current)
		})
	}
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := newShell(t, "CAIRN_DATABASE="+db.URL)
		alice := decoded[identity.NewUser](s, "user", "add", "alice", "--email", "Alice@example.org")
		require.True(t, strings.HasPrefix(alice.APIKey, "codai_"))
		require.Contains(t, s.done("user", "add", "bob"), "export CAIRN_API_KEY=codai_")
		s.refused(exitFailed, []string{"exists"}, "user", "add", "alice")

		laptop := decoded[identity.NewKey](s, "key", "add", "alice", "--label", "laptop")
		require.Len(t, decoded[struct{ Keys []identity.Key }](s, "key", "list", "alice").Keys, 2)
		require.Equal(t, "key "+laptop.KeyID+" is revoked\n", s.done("key", "revoke", laptop.KeyID))
		s.refused(exitFailed, []string{"not found"}, "key", "revoke", "none")
		s.done("user", "disable", "bob")
		s.refused(exitFailed, []string{"disabled"}, "key", "add", "bob")

		users := decoded[struct{ Users []identity.User }](s, "user", "list").Users
		require.Len(t, users, 2)
		require.Equal(t, "alice@example.org", *users[0].Email)
		require.Equal(t, 1, users[0].LiveKeys)
		require.NotNil(t, users[1].DisabledAt)
		for _, listing := range []string{s.done("user", "list"), s.done("key", "list"), s.done("key", "list", "--json")} {
			require.NotContains(t, listing, "codai_", "a key is shown once, when it is made")
		}
	})
}

func TestAdministrationOfWrongDatabases(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.refused(exitFailed, []string{"open database"}, "user", "list", "--database", "sqlite:"+filepath.Join(t.TempDir(), "none", "x.db"))
	got := s.call("user", "list", "--database", "postgres://cairn:hunter2@127.0.0.1:1/cairn")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "127.0.0.1:1")
	require.Equal(t, 1, strings.Count(got.errs, "\n"), got.errs)
	require.Equal(t, 1, strings.Count(got.errs, "dial tcp"), got.errs)
	require.NotContains(t, got.errs, "hunter2")
}

// A name that was misspelt becomes no new database: only `user add`, `serve` and `migrate up` begin one.
func TestOnlyBeginningsMakeADatabase(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "typo.db")
	s := newShell(t)
	for _, args := range []string{
		"user list", "user disable x", "key list", "key add x", "key revoke x", "serve --no-migrate --listen 127.0.0.1:0",
	} {
		s.refused(exitFailed, []string{"there is no database", "typo.db", "cairn migrate up"}, append(strings.Fields(args), "--database", url)...)
	}
	require.Contains(t, s.done("migrate", "status", "--database", url), "version 0")
	made, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, made)
	require.Equal(t, "made "+url+"\n", s.call("user", "add", "x", "--database", url).errs, "said, because it may be the wrong folder")
	require.Contains(t, s.done("user", "list", "--database", url), "x")
	other := "sqlite:" + filepath.Join(folder, "other.db")
	require.Equal(t, "made "+other+"\n", s.call("migrate", "up", "--database", other).errs)
	s.done("migrate", "up", "--database", other)
}

func TestErrorsAreJSONToo(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	got := s.call("user", "list", "--json")
	require.Equal(t, exitFailed, got.code)
	var answer struct {
		Error struct{ Message, Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(got.errs), &answer), got.errs)
	require.Contains(t, answer.Error.Message, "there is no database")
	require.Empty(t, answer.Error.Code)
}
