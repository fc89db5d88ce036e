//go:build unix

package acp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	t.Parallel()
	handler := &recorder{}
	o := options(t, handler)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	in := func(name string) string { return filepath.Join(o.Root, name) }
	write(t, in("file"), "one\ntwo\nthree")
	write(t, in("sub/deep"), "deep\n")
	write(t, in("empty"), "")
	write(t, in("binary"), "a\xff")
	write(t, in("big"), strings.Repeat("0123456789abcde\n", 1<<20)+"x")
	require.NoError(t, os.Symlink("../file", in("sub/link")))
	require.NoError(t, os.Symlink("sub", in("folder")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), in("leak")))
	require.NoError(t, os.Symlink(outside, in("leaks")))
	require.NoError(t, os.Symlink(filepath.Join("..", filepath.Base(outside)), in("sideways")))
	require.NoError(t, os.Symlink("loop", in("loop")))
	require.NoError(t, syscall.Mkfifo(in("fifo"), 0o600))
	cases := []struct{ action, want string }{
		{"read file", "read: one\ntwo\nthree"},
		{"read sub/deep", "read: deep\n"},
		{"read empty", "read: "},
		{"read sub/link", "read: one\ntwo\nthree"},
		{"read folder/deep", "read: deep\n"},
		{"rawread $ROOT//sub/../file", "read: one\ntwo\nthree"},
		{"rawread $ROOT/folder/../file", "read: one\ntwo\nthree"},
		{"lines file 2 1", "read: two\n"},
		{"lines file 2 9", "read: two\nthree"},
		{"lines file 1 2", "read: one\ntwo\n"},
		{"lines file 0 1", "read: one\n"},
		{"lines file 9 1", "read: "},
		{"lines file 1 0", "read: "},
		{"lines big 1048577 5", "read: x"},
		{"lines file -1 5", "error: must not be negative"},
		{"read big", "error: more than 16 MiB"},
		{"read binary", "error: no text in UTF-8"},
		{"read missing", "error: no such file"},
		{"read sub", "error: it is a folder"},
		{"rawread $ROOT", "error: it is a folder"},
		{"rawread file", "error: is not absolute"},
		{"rawread ../file", "error: is not absolute"},
		{"rawread $ROOT/../" + filepath.Base(outside) + "/secret", "error: escapes"},
		{"rawread $ROOT/sub/../../" + filepath.Base(outside) + "/secret", "error: escapes"},
		{"rawread " + filepath.Join(outside, "secret"), "error: is outside of"},
		{"rawread $ROOTx/file", "error: is outside of"},
		{"rawread /etc/hostname", "error: is outside of"},
		{"rawread /dev/null", "error: is outside of"},
		{"read leak", "error: escapes"},
		{"read leaks/secret", "error: escapes"},
		{"read sideways/secret", "error: escapes"},
		{"read loop", "error: "},
		{"read fifo", "error: it is no ordinary file (p"},
	}
	lines := make([]string, 0, len(cases))
	for _, c := range cases {
		lines = append(lines, c.action)
	}
	said := playIn(t, o, handler, lines...)
	require.Len(t, said, len(cases))
	for i, c := range cases {
		if message, ok := strings.CutPrefix(c.want, "error: "); ok {
			require.True(t, strings.HasPrefix(said[i], "error: "), "%s: %s", c.action, said[i])
			require.Contains(t, said[i], message, c.action)
			require.NotContains(t, said[i], "secret\"", c.action)
			continue
		}
		require.Equal(t, c.want, said[i], c.action)
	}
	require.Equal(t, len(cases), handler.steps)
}

func TestRootByAnotherName(t *testing.T) {
	t.Parallel()
	handler := &recorder{}
	o := options(t, handler)
	write(t, filepath.Join(o.Root, "file"), "text")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(o.Root, link))
	named := o.Root
	o.Root = link
	require.Equal(t, []string{"read: text", "read: text"}, playIn(t, o, handler, "read file", "rawread "+named+"/file"))
}

func TestWrite(t *testing.T) {
	t.Parallel()
	handler := &recorder{}
	o := options(t, handler)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "theirs"), "theirs")
	in := func(name string) string { return filepath.Join(o.Root, name) }
	write(t, in("file"), "old")
	require.NoError(t, os.Chmod(in("file"), 0o751))
	write(t, in("other"), "old")
	write(t, in("locked"), "old")
	require.NoError(t, os.Chmod(in("locked"), 0o400))
	require.NoError(t, os.Mkdir(in("sub"), 0o750))
	require.NoError(t, os.Symlink("../other", in("sub/link")))
	require.NoError(t, os.Symlink("not-yet", in("dangling")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "theirs"), in("leak")))
	require.NoError(t, os.Symlink(outside, in("leaks")))
	require.NoError(t, os.Symlink("../"+filepath.Base(outside)+"/theirs", in("sideways")))
	require.NoError(t, os.Symlink("loop", in("loop")))
	require.NoError(t, syscall.Mkfifo(in("fifo"), 0o600))
	cases := []struct{ action, want string }{
		{`write file new\ntext`, "wrote"},
		{"write a/b/c deep", "wrote"},
		{"write sub/link through", "wrote"},
		{"write dangling made", "wrote"},
		{"write empty ", "wrote"},
		{"rawwrite $ROOT/sub/../plain text", "wrote"},
		{"write locked new", "read-only"},
		{"write sub new", "it is a folder"},
		{"rawwrite $ROOT new", "it is a folder"},
		{"write fifo new", "it is no ordinary file"},
		{"write file/under new", "not a directory"},
		{"write loop new", "too many"},
		{"rawwrite here new", "is not absolute"},
		{"rawwrite /tmp/elsewhere new", "is outside of"},
		{"rawwrite $ROOT/../" + filepath.Base(outside) + "/theirs new", "escapes"},
		{"rawwrite $ROOT/../" + filepath.Base(outside) + "/fresh new", "escapes"},
		{"rawwrite $ROOT/../" + filepath.Base(outside) + "/fresh/deep new", "escapes"},
		{"write leak new", "absolute path"},
		{"write leaks/theirs new", "escapes"},
		{"write leaks/fresh new", "escapes"},
		{"write leaks/a/b new", ""},
		{"write sideways new", "escapes"},
		{"write dangling/x/y new", ""},
	}
	lines := make([]string, 0, len(cases))
	for _, c := range cases {
		lines = append(lines, c.action)
	}
	said := playIn(t, o, handler, lines...)
	require.Len(t, said, len(cases))
	for i, c := range cases {
		if c.want == "wrote" {
			require.Equal(t, c.want, said[i], c.action)
			continue
		}
		require.True(t, strings.HasPrefix(said[i], "error: "), "%s: %s", c.action, said[i])
		require.Contains(t, said[i], c.want, c.action)
	}
	require.Equal(t, "new\ntext", read(t, in("file")))
	info, err := os.Stat(in("file"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o751), info.Mode().Perm())
	require.Equal(t, "deep", read(t, in("a/b/c")))
	require.Equal(t, "through", read(t, in("other")))
	info, err = os.Lstat(in("sub/link"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "a link stays a link")
	require.Equal(t, "made", read(t, in("not-yet")))
	require.Empty(t, read(t, in("empty")))
	require.Equal(t, "text", read(t, in("plain")))
	require.Equal(t, "old", read(t, in("locked")))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "theirs", read(t, filepath.Join(outside, "theirs")))
	for _, folder := range []string{o.Root, in("sub"), in("a/b")} {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, entry := range entries {
			require.NotContains(t, entry.Name(), ".new", "nothing unfinished is left")
		}
	}
}

// A link that turns to the outside and back while requests run must not lead them there.
func TestSwappedLink(t *testing.T) {
	t.Parallel()
	handler := &recorder{}
	o := options(t, handler)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "file"), "secret")
	write(t, filepath.Join(o.Root, "inside/file"), "mine")
	folder, beside := filepath.Join(o.Root, "folder"), filepath.Join(o.Root, "beside")
	require.NoError(t, os.Symlink("inside", folder))
	var over atomic.Bool
	swapping := make(chan struct{})
	go func() {
		defer close(swapping)
		for !over.Load() {
			for _, target := range []string{"../" + filepath.Base(outside), "inside"} {
				_ = os.Symlink(target, beside)
				_ = os.Rename(beside, folder)
			}
		}
	}()
	var lines []string
	for range 300 {
		lines = append(lines, "read folder/file", "write folder/file mine")
	}
	said := playIn(t, o, handler, lines...)
	over.Store(true)
	<-swapping
	met := map[string]int{}
	for _, text := range said {
		require.NotContains(t, text, "read: secret")
		text, _, _ = strings.Cut(text, " ")
		met[text]++
	}
	require.Equal(t, "secret", read(t, filepath.Join(outside, "file")))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NotZero(t, met["error:"], met)
	require.NotZero(t, met["wrote"], met)
	require.NotZero(t, met["read:"], met)
}

func TestStep(t *testing.T) {
	t.Parallel()
	t.Run("a step that refuses refuses the request", func(t *testing.T) {
		t.Parallel()
		handler := &recorder{onStep: func(context.Context) error { return errors.New("not now") }}
		o := options(t, handler)
		write(t, filepath.Join(o.Root, "file"), "text")
		said := playIn(t, o, handler, "read file", "write file new", "background true", "output t", "kill t", "release t")
		require.Len(t, said, 6)
		for _, text := range said {
			require.Contains(t, text, "not now")
		}
		require.Equal(t, "text", read(t, filepath.Join(o.Root, "file")))
	})
	t.Run("a step holds the request", func(t *testing.T) {
		t.Parallel()
		held, hold := make(chan struct{}), make(chan struct{})
		handler := &recorder{onStep: func(context.Context) error {
			close(held)
			<-hold
			return nil
		}}
		o := options(t, handler)
		agent := opened(t, o)
		done := prompting(t, agent, "write file new")
		<-held
		require.NoFileExists(t, filepath.Join(o.Root, "file"))
		require.True(t, agent.Busy())
		close(hold)
		require.NoError(t, <-done)
		require.Equal(t, "new", read(t, filepath.Join(o.Root, "file")))
	})
}
