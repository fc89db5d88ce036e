//go:build unix

package storage_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/testkit"
)

// TestReadOnlyFile opens the file as an account that may not write it; root may write everything, so
// another process gives its rights up first.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	url := testkit.NewURL(t, testkit.SQLite)
	path := strings.TrimPrefix(url, "sqlite:")
	dir, err := os.MkdirTemp("", "cairn-readonly-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	binary := copyFile(t, testBinary(t), filepath.Join(dir, "child"), 0o555)
	readOnly := copyFile(t, path, filepath.Join(dir, "cairn.db"), 0o444)
	child := childCommand(t, "read only", "sqlite:"+readOnly)
	child.Path, child.Dir = binary, dir
	if os.Geteuid() == 0 {
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	require.NoError(t, os.Chmod(dir, 0o555))
	require.NoError(t, child.Run())
	require.NoError(t, os.Chmod(dir, 0o755))
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) string {
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, mode))
	return to
}
