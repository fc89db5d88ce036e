package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// town is a server with a person who owns it, signed in by the command line.
type town struct {
	*shell

	url string
	db  *testkit.Database
}

func newTown(t *testing.T, db *testkit.Database) *town {
	t.Helper()
	server := servertest.Start(t, db, nil)
	w := &town{shell: newShell(t, "CAIRN_DATABASE="+db.URL), url: server.URL, db: db}
	w.done("user", "add", "ada", "--email", "ada@example.org")
	w.signIn("ada")
	return w
}

// signIn signs the shell in with a login code.
func (w *town) signIn(name string) {
	w.t.Helper()
	code := decoded[wire.LoginCode](w.shell, "user", "login-code", name).Code
	w.stdin = code + "\n"
	require.Contains(w.t, w.done("auth", "login", w.url), "signed in to "+w.url)
	w.stdin = ""
}

// other is another person's shell, on another install.
func (w *town) other(name string) *town {
	w.t.Helper()
	o := &town{shell: newShell(w.t, "CAIRN_DATABASE="+w.db.URL), url: w.url, db: w.db}
	o.done("user", "add", name)
	o.signIn(name)
	return o
}

func TestSignInOfTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newTown(t, testkit.New(t, testkit.SQLite))
	me := decoded[struct {
		URL string
		Me  wire.Me
	}](w.shell, "auth", "status")
	require.Equal(t, w.url, me.URL)
	require.Equal(t, "ada", me.Me.Principal.Handle)
	require.Equal(t, wire.DeviceActive, me.Me.Device.State)
	require.Contains(t, w.done("auth", "status"), "owner")
	for _, args := range [][]string{{"user", "devices"}, {"user", "devices", "ada"}} {
		listed := w.done(args...)
		require.Contains(t, listed, me.Me.Device.ID)
		require.Contains(t, listed, "active")
	}

	t.Run("what is kept is for its owner only", func(t *testing.T) {
		root := (&app{environ: w.environ}).getenv("XDG_CONFIG_HOME")
		files := 0
		require.NoError(t, filepath.WalkDir(filepath.Join(root, "cairn", "workspace"), func(path string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := entry.Info()
			require.NoError(t, err)
			if entry.IsDir() || strings.HasSuffix(path, "server") || strings.HasSuffix(path, ".lock") || runtime.GOOS == "windows" {
				return nil
			}
			files++
			require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(content), "refresh_token", "the sign-in is encrypted")
			return nil
		}))
		require.GreaterOrEqual(t, files, 3)
	})
	t.Run("what nobody signed in to leaves nothing behind", func(t *testing.T) {
		elsewhere := newShell(t, "CAIRN_URL="+w.url)
		elsewhere.refused(exitFailed, []string{"nobody is signed in to " + w.url}, "space", "list")
		require.Contains(t, elsewhere.done("auth", "logout"), "signed out of "+w.url)
		root := (&app{environ: elsewhere.environ}).getenv("XDG_CONFIG_HOME")
		entries, err := os.ReadDir(filepath.Join(root, "cairn", "workspace"))
		require.True(t, len(entries) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)), "%v %v", entries, err)
	})
	t.Run("the address is that of the server", func(t *testing.T) {
		w.refused(exitUsage, []string{"without the path to its API: " + w.url}, "auth", "login", w.url+"/api/v1/")
		w.refused(exitUsage, []string{"without the path to its API: " + w.url}, "auth", "login", w.url+"/v1")
		for _, good := range []string{"http://api", "http://v1", "https://example.org/team/api", "https://example.org/v1x"} {
			require.NoError(t, checkServer(good))
		}
		err := checkServer("http://me:secret@example.org")
		require.ErrorContains(t, err, "CAIRN_URL")
		require.NotContains(t, err.Error(), "secret")
	})
	t.Run("a code works once, and a password again and again", func(t *testing.T) {
		w.refused(exitFailed, []string{"not right", "login-code"}, "auth", "login", "--code", "AAAA-BBBB-CCCC-DDDD")
		w.stdin = "a long enough password\n"
		w.done("user", "password", "ada")
		require.Contains(t, w.done("auth", "login", "--user", "ada"), "as @ada")
		w.stdin = "another password\n"
		w.refused(exitFailed, []string{"the name or the password is not right", "cairn user password"}, "auth", "login", "--user", "ada")
		w.stdin = ""
		t.Run("WS-ID-5 signing in again renews the sign-in there is", func(t *testing.T) {
			login := func() string {
				w.stdin = "a long enough password\n"
				defer func() { w.stdin = "" }()
				return decoded[signInShown](w.shell, "auth", "login", "--user", "ada").SessionID
			}
			first := login()
			require.Equal(t, first, login())
		})
		w.refused(exitUsage, []string{"nothing on standard input"}, "auth", "login")
		w.refused(exitUsage, []string{"either --user or --code"}, "auth", "login", "--user", "a", "--code", "b")
	})
	t.Run("a sign-in that the server ended is named so", func(t *testing.T) {
		ended := &app{environ: w.environ}
		problem := &client.Problem{Problem: wire.Problem{Status: 401, Code: string(code.InvalidCredentials), Detail: "These credentials are no good."}}
		for _, err := range []error{problem, fmt.Errorf("%w: %w", client.ErrSignedOut, problem)} {
			require.Contains(t, ended.explain(err), "the sign-in has ended")
			require.Contains(t, ended.explain(err), "`cairn auth login`")
		}
	})
	require.Contains(t, w.done("auth", "logout"), "signed out")
	w.refused(exitFailed, []string{"nobody is signed in to " + w.url, "cairn auth login " + w.url}, "space", "list")
	t.Run("a device id of another account names the way out", func(t *testing.T) {
		w.done("user", "add", "eve")
		login := decoded[wire.LoginCode](w.shell, "user", "login-code", "eve").Code
		w.refused(exitFailed, []string{"another account", "export CAIRN_DEVICE="}, "auth", "login", w.url, "--code", login)
	})
	got := w.call("space", "list", "--json")
	require.Contains(t, got.errs, `"message"`)
	w.signIn("ada")
	w.done("auth", "logout", "--local")
	w.environ = append(w.environ, "CAIRN_URL=http://127.0.0.1:1")
	w.refused(exitFailed, []string{"cannot reach http://127.0.0.1:1"}, "auth", "login", "--code", "AAAA-BBBB-CCCC-DDDD")
	w.environ = append(w.environ, "CAIRN_URL=127.0.0.1:1")
	w.refused(exitUsage, []string{"http:// is missing"}, "auth", "status")
}

func TestPlacesAndGrants(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newTown(t, db)
		bob := w.other("bob")
		space := decoded[wire.Space](w.shell, "space", "create", "Workshop")
		require.Contains(t, w.done("space", "rename", "workshop", "Atelier"), "Atelier")
		channel := decoded[wire.Channel](w.shell, "channel", "create", "Atelier", "general", "--topic", "All of us")
		forum := decoded[wire.Channel](w.shell, "channel", "create", space.ID, "ideas", "--forum")
		require.Equal(t, wire.ChannelForum, forum.Kind)
		require.Contains(t, w.done("channel", "list", "Atelier"), "All of us")
		require.Contains(t, w.done("channel", "set", "#general", "--topic", ""), "version")
		require.True(t, decoded[wire.Channel](w.shell, "channel", "set", "Atelier/general", "--read-only").ReadOnly)
		require.False(t, decoded[wire.Channel](w.shell, "channel", "set", "general", "--read-only=false").ReadOnly)
		w.refused(exitUsage, []string{"say what to change"}, "channel", "set", "general")

		t.Run("a name stands for one channel of a space", func(t *testing.T) {
			w.refused(exitFailed, []string{"is called general already: " + channel.ID}, "channel", "create", "Atelier", "#General")
			hash := decoded[wire.Channel](w.shell, "channel", "create", "Atelier", "#hash")
			require.Equal(t, "hash", hash.Name)
			w.refused(exitFailed, []string{"is called general already"}, "channel", "set", "hash", "--name", "general")
			require.Equal(t, "Hash", decoded[wire.Channel](w.shell, "channel", "set", "hash", "--name", "#Hash").Name)
			w.done("channel", "archive", "Hash")
			w.refused(exitFailed, []string{"cairn channel unarchive " + hash.ID}, "channel", "create", "Atelier", "hash")
			w.done("channel", "unarchive", "Hash")
		})
		t.Run("a name of several is told with their spaces", func(t *testing.T) {
			w.done("space", "create", "Elsewhere")
			twin := decoded[wire.Channel](w.shell, "channel", "create", "Elsewhere", "general")
			w.refused(exitUsage, []string{"2 channels are called", channel.ID + "  Atelier/general", twin.ID + "  Elsewhere/general"}, "ws", "read", "general")
			require.Equal(t, twin.ID, decoded[wire.Channel](w.shell, "channel", "set", "Elsewhere/#general", "--name", "twin").ID)
		})
		t.Run("WS-AZ-5 what somebody does not see is not there", func(t *testing.T) {
			require.Contains(t, bob.call("channel", "list").errs, "none")
			bob.refused(exitFailed, []string{`no channel "general"`}, "ws", "read", "general")
			bob.refused(exitFailed, []string{"not found"}, "ws", "say", channel.MainThreadID, "hello")
		})
		t.Run("WS-AZ-1 grants by person, by group, and back", func(t *testing.T) {
			grant := decoded[wire.Grant](w.shell, "grant", "add", "@bob", "write", "--channel", "general", "--expires", "7d")
			require.NotNil(t, grant.ExpiresAt)
			require.Contains(t, bob.done("channel", "list"), "general")
			require.Contains(t, w.done("grant", "list", "--channel", "general"), "@bob")
			require.Contains(t, w.done("grant", "list", "--channel", "general"), "channel Atelier/#general")
			require.Contains(t, w.done("audit", "list"), "  ada  ")
			require.Contains(t, w.done("grant", "revoke", grant.ID), "revoked")
			require.Contains(t, bob.call("channel", "list").errs, "none")
			team := decoded[wire.Group](w.shell, "group", "create", "team")
			w.done("group", "add", "team", "bob")
			w.done("grant", "add", team.ID, "read", "--group", "--space", "Atelier")
			require.Contains(t, w.done("group", "list"), "@bob")
			require.Contains(t, bob.done("space", "list"), "Atelier")
			bob.refused(exitFailed, []string{"needs the level manage on the channel"}, "channel", "archive", "general")
			w.done("group", "remove", "team", "bob")
			require.Contains(t, bob.call("space", "list").errs, "none")
		})
		post := decoded[wire.ThreadStarted](w.shell, "ws", "post", "ideas", "A cairn", "stone", "on stone")
		require.Equal(t, wire.ThreadPost, post.Thread.Kind)
		require.Contains(t, w.done("ws", "threads", "ideas"), "A cairn")
		require.Contains(t, w.done("ws", "read", post.Thread.ID), "stone on stone")
		t.Run("what was said is found", func(t *testing.T) {
			require.Eventually(t, func() bool { return len(decoded[searchFound](w.shell, "ws", "search", "stone").Messages) == 1 },
				time.Minute, 10*time.Millisecond, "the index follows")
			out := w.done("ws", "search", "stone", "on")
			require.Contains(t, out, "Atelier/#ideas  thread "+post.Thread.ID+"\n")
			require.Contains(t, out, "stone on stone")
			require.Contains(t, w.call("ws", "search", "nothing-of-this").errs, "none")
			require.Contains(t, bob.call("ws", "search", "stone").errs, "none")
			w.refused(exitUsage, []string{"--lines is 1 to 100"}, "ws", "search", "stone", "-n", "101")
		})
		require.NotContains(t, w.done("ws", "channels"), "archived")
		require.NotNil(t, decoded[wire.Channel](w.shell, "channel", "archive", "ideas").ArchivedAt)
		require.Contains(t, w.done("ws", "channels"), "forum, archived")
		w.refused(exitFailed, []string{"channel is archived", "cairn channel unarchive " + forum.ID}, "ws", "say", post.Thread.ID, "more")
		w.refused(exitFailed, []string{"channel is archived"}, "ws", "post", "ideas", "Another", "one")
		require.Nil(t, decoded[wire.Channel](w.shell, "channel", "unarchive", "ideas").ArchivedAt)
		require.NotNil(t, decoded[wire.Space](w.shell, "space", "archive", "Atelier").ArchivedAt)
		w.refused(exitFailed, []string{"space is archived", "cairn space unarchive " + space.ID}, "ws", "say", "general", "more")
		w.done("space", "unarchive", "Atelier")
		for _, one := range []struct {
			args  string
			parts []string
		}{
			{"grant add bob king --instance", []string{"LEVEL is read, write"}},
			{"grant add bob write", []string{"--space, --channel or --instance"}},
			{"grant add bob write --space a --instance", []string{"only one of"}},
			{"grant add bob write --instance --expires soon", []string{"--expires is a duration"}},
			{"grant add bob write --instance --expires -1h", []string{"--expires is a duration"}},
			{"grant revoke x", []string{"GRANT is an id"}},
			{"ws import x --format irc", []string{"--format is slack or mattermost"}},
			{"ws import x --format slack", []string{"--space is missing"}},
			{"ws read general -n 0", []string{"--lines is 1 to"}},
			{"ws say ideas hello", []string{"is a forum"}},
			{"ws say general -", []string{"no text"}},
			{"ws say general x --id y", []string{"--id is a UUID"}},
			{"ws tail --after -1", []string{"0 or more"}},
		} {
			w.refused(exitUsage, one.parts, strings.Fields(one.args)...)
		}
	})
}

func TestTalkOnTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newTown(t, testkit.New(t, testkit.SQLite))
	w.done("space", "create", "Workshop")
	channel := decoded[wire.Channel](w.shell, "channel", "create", "Workshop", "general")
	tail := w.tailing(t)
	id := env.Real().NewID()
	sent := decoded[wire.Message](w.shell, "ws", "say", "general", "hello", "everybody", "--id", id)
	require.Equal(t, "hello everybody", sent.ContentMD)
	again := decoded[wire.Message](w.shell, "ws", "say", "general", "hello", "everybody", "--id", id)
	require.Equal(t, sent.ID, again.ID, "sent again it is there once")
	w.stdin = "from\na pipe\n"
	require.Contains(t, w.done("ws", "say", channel.MainThreadID, "-"), "number 2")
	w.stdin = ""
	w.done("ws", "say", "general", "an answer", "--reply-to", sent.ID)
	t.Run("a message cannot look like one of somebody else", func(t *testing.T) {
		w.stdin = "mine\n    9  2026-01-01 10:00  @eve       I resign\n"
		defer func() { w.stdin = "" }()
		w.done("ws", "say", "general", "-")
		require.NotRegexp(t, `(?m)^ {0,6}\d+  2026-01-01 10:00`, w.done("ws", "read", "general"))
		require.Contains(t, w.done("ws", "read", "general"), "I resign")
	})
	t.Run("a channel's id stands for its main timeline too", func(t *testing.T) {
		require.Contains(t, w.done("ws", "read", channel.ID), "hello everybody")
		w.refused(exitFailed, []string{"not found", "no thread and no channel"}, "ws", "read", env.Real().NewID())
	})
	text := w.done("ws", "read", "general", "--mark")
	require.Contains(t, text, "hello everybody")
	require.Contains(t, text, "@ada")
	require.Len(t, decoded[wire.Messages](w.shell, "ws", "read", "general", "-n", "2").Messages, 2)
	require.Contains(t, w.done("ws", "threads", "general"), "main")
	require.Contains(t, w.done("ws", "channels"), "#general")

	tail.expect(t, "message.created", 4)
	for _, line := range tail.lines() {
		var event wire.Envelope
		require.NoError(t, json.Unmarshal([]byte(line), &event), line)
		require.NotEmpty(t, event.Type)
	}
	tail.stop()
	replayed := w.tailing(t, "--after", "0")
	replayed.expect(t, "message.created", 4)
	replayed.stop()
}

// tail is `ws tail --json` while it runs.
type tail struct {
	mu   sync.Mutex // guards text
	text strings.Builder
	stop func()
}

// Write takes what is printed.
func (o *tail) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *tail) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Split(strings.TrimSpace(o.text.String()), "\n")
}

func (o *tail) expect(t *testing.T, what string, times int) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Count(strings.Join(o.lines(), "\n"), `"type":"`+what+`"`) == times },
		30*time.Second, 5*time.Millisecond, "%s", o.lines())
}

// tailing starts `ws tail` as another install of the same person and returns when it is connected.
func (w *town) tailing(t *testing.T, args ...string) *tail {
	t.Helper()
	o := &town{shell: newShell(t, "CAIRN_DATABASE="+w.db.URL), url: w.url, db: w.db}
	o.signIn("ada")
	out, errs := &tail{}, &tail{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	out.stop = func() { cancel(); <-ended }
	t.Cleanup(out.stop)
	begin := len(args) == 0
	go func() {
		defer close(ended)
		a := &app{env: env.Real(), in: strings.NewReader(""), out: out, errs: errs, environ: o.environ}
		run(ctx, a, append([]string{"ws", "tail", "--json"}, args...))
	}()
	if begin {
		// The first event that is delivered shows that it is live.
		require.Eventually(t, func() bool {
			w.done("channel", "set", "general", "--topic", env.Real().RandomID())
			return out.lines()[0] != ""
		}, 30*time.Second, 100*time.Millisecond)
	}
	return out
}

func TestTailForPeople(t *testing.T) {
	t.Parallel()
	w := newTown(t, testkit.New(t, testkit.SQLite))
	w.done("space", "create", "Workshop")
	w.done("channel", "create", "Workshop", "general")
	w.done("ws", "say", "general", "hello")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := &tail{}, &tail{}
	ended := make(chan int, 1)
	go func() {
		a := &app{env: env.Real(), in: strings.NewReader(""), out: out, errs: errs, environ: w.environ}
		ended <- run(ctx, a, []string{"ws", "tail", "--after", "0"})
	}()
	require.Eventually(t, func() bool { return strings.Contains(strings.Join(out.lines(), "\n"), "hello") }, 30*time.Second, 5*time.Millisecond)
	text := strings.Join(out.lines(), "\n")
	require.Regexp(t, `(?m)^ +\d+ \d\d:\d\d:\d\d  message\.created +#general +@ada +hello$`, text)
	require.Contains(t, strings.Join(errs.lines(), "\n"), "connected as @ada, from event 0")

	t.Run("ES-6.1 another connection of the same device takes over", func(t *testing.T) {
		second, stop := context.WithCancel(t.Context())
		defer stop()
		over := make(chan int, 1)
		go func() {
			a := &app{env: env.Real(), in: strings.NewReader(""), out: &tail{}, errs: &tail{}, environ: w.environ}
			over <- run(second, a, []string{"ws", "tail"})
		}()
		require.Equal(t, exitFailed, <-ended)
		require.Contains(t, strings.Join(errs.lines(), "\n"), "another connection of this device took over")
		stop()
		require.Equal(t, exitDone, <-over)
	})
	t.Run("a place ahead of the log is named so, and being stopped is no lost connection", func(t *testing.T) {
		ahead, stop := context.WithCancel(t.Context())
		defer stop()
		said, over := &tail{}, make(chan int, 1)
		go func() {
			a := &app{env: env.Real(), in: strings.NewReader(""), out: &tail{}, errs: said, environ: w.environ}
			over <- run(ahead, a, []string{"ws", "tail", "--after", "99999"})
		}()
		require.Eventually(t, func() bool { return strings.Contains(strings.Join(said.lines(), "\n"), "99999 lies ahead of the log") },
			30*time.Second, 5*time.Millisecond)
		stop()
		require.Equal(t, exitDone, <-over)
		require.NotContains(t, strings.Join(said.lines(), "\n"), "not connected")
	})
}

func TestImportOfAnotherChat(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newTown(t, db)
		w.done("space", "create", "Studio")
		file := filepath.Join("demo", "workspace", "exports", "mattermost.jsonl")
		first := decoded[chatImport](w.shell, "ws", "import", file, "--format", "mattermost", "--space", "Studio")
		require.EqualValues(t, 56, first.Added)
		require.Equal(t, "done", first.State)
		require.Zero(t, first.Problems)
		t.Run("ES-15.8 importing again adds nothing", func(t *testing.T) {
			again := decoded[chatImport](w.shell, "ws", "import", file, "--format", "mattermost", "--space", "Studio")
			require.Zero(t, again.Added)
			require.EqualValues(t, 56, again.Known)
			require.Equal(t, first.ImportID, again.ImportID)
		})
		folder := filepath.Join("demo", "workspace", "exports", "slack")
		require.Contains(t, w.done("ws", "import", folder, "--format", "slack", "--space", "Studio"), "150 messages added")
		t.Run("ES-15.8 an archived channel is named and left out", func(t *testing.T) {
			w.done("channel", "archive", "engineering")
			again := decoded[chatImport](w.shell, "ws", "import", folder, "--format", "slack", "--space", "Studio")
			require.Equal(t, "done", again.State)
			require.Positive(t, again.Left["messages of the archived channel engineering"])
			require.Positive(t, again.Known)
			w.done("channel", "unarchive", "engineering")
		})
		require.Contains(t, w.done("ws", "read", "engineering", "-n", "50"), "  frida ", "an author whom nobody here is")
		w.refused(exitFailed, []string{"no such file"}, "ws", "import", "/none", "--format", "slack", "--space", "Studio")
		require.NotContains(t, w.call("ws", "import", "/none", "--format", "slack", "--space", "Studio").errs, "cannot reach")
	})
}
