package filelock_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/filelock"
)

func TestOneHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Take(path)
	require.NoError(t, err)
	_, err = filelock.Take(path)
	require.ErrorIs(t, err, filelock.ErrHeld)
	filelock.Release(first)
	second, err := filelock.Take(path)
	require.NoError(t, err)
	filelock.Release(second)
	filelock.Release(nil)
	_, err = filelock.Take(filepath.Join(path, "below a file"))
	require.Error(t, err)
	require.NotErrorIs(t, err, filelock.ErrHeld)
}
