package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/storage"
)

// migratedFile is the content of a migrated SQLite file, made once per process.
var migratedFile = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "cairn-template-")
	if err != nil {
		return nil, fmt.Errorf("make template folder: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	if err := storage.Migrate(context.Background(), "sqlite:"+path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func newSQLite(t testing.TB) string {
	t.Helper()
	content, err := migratedFile()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "cairn.db")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return "sqlite:" + path
}

func emptySQLite(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "cairn.db")
}
