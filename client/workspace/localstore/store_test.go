package localstore_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
)

func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a folder?#%")
	store, keys, err := localstore.OpenIn(dir)
	require.NoError(t, err)
	ctx := t.Context()

	tokens, err := store.LoadTokens(ctx)
	require.NoError(t, err)
	require.Nil(t, tokens)
	secret := "a-secret-refresh-token"
	require.NoError(t, store.SaveTokens(ctx, &workspace.Tokens{RefreshToken: secret}))
	used := time.Now().UTC().Truncate(time.Millisecond)
	at := workspace.Position{Seq: 7, Epoch: "e"}
	require.NoError(t, store.Commit(ctx, at, []workspace.Record{
		{Kind: "message", ID: "m", Parent: "t", Data: []byte(`{"content_md":"very private words"}`)},
		{Kind: "window", ID: "t", Data: []byte(`{}`), UsedAt: used},
	}))
	require.NoError(t, store.PutEntries(ctx, []workspace.Entry{{ID: "b", Place: 2}, {ID: "a", Place: 1, Content: "unsent words"}}, nil))
	require.NoError(t, store.Close())

	t.Run("ES-13.1 the file is encrypted, and only its owner reads it", func(t *testing.T) {
		for _, name := range []string{"workspace.db", "dpop.pem", "store.key"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if name == "dpop.pem" {
				_, keyErr := keys.Key()
				require.NoError(t, keyErr)
				info, err = os.Stat(filepath.Join(dir, name))
			}
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		}
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		for _, suffix := range []string{"", "-wal"} {
			content, err := os.ReadFile(filepath.Join(dir, "workspace.db"+suffix))
			if suffix != "" && os.IsNotExist(err) {
				continue
			}
			require.NoError(t, err)
			for _, plain := range []string{secret, "private words", "unsent words", "SQLite format"} {
				require.False(t, bytes.Contains(content, []byte(plain)), "%q is readable", plain)
			}
		}
	})
	t.Run("another key does not open it, and destroys nothing", func(t *testing.T) {
		_, err := localstore.Open(filepath.Join(dir, "workspace.db"), bytes.Repeat([]byte{7}, workspace.DataKeyBytes))
		require.ErrorIs(t, err, localstore.ErrWrongKey)
	})

	store, _, err = localstore.OpenIn(dir)
	require.NoError(t, err)
	defer store.Close()
	tokens, err = store.LoadTokens(ctx)
	require.NoError(t, err)
	require.Equal(t, secret, tokens.RefreshToken)
	position, records, err := store.LoadCopy(ctx)
	require.NoError(t, err)
	require.Equal(t, at, position)
	require.Len(t, records, 2)
	require.Equal(t, used, records[1].UsedAt)
	require.Equal(t, "t", records[0].Parent)
	entries, err := store.LoadEntries(ctx)
	require.NoError(t, err)
	require.Equal(t, "a", entries[0].ID)
	require.Equal(t, "b", entries[1].ID)

	t.Run("ES-7.3 the outbox stays when the copy is discarded", func(t *testing.T) {
		require.NoError(t, store.Commit(ctx, at, []workspace.Record{{Kind: "message", ID: "m"}}))
		_, records, err := store.LoadCopy(ctx)
		require.NoError(t, err)
		require.Len(t, records, 1)
		require.NoError(t, store.Discard(ctx))
		position, records, err := store.LoadCopy(ctx)
		require.NoError(t, err)
		require.Zero(t, position)
		require.Empty(t, records)
		entries, err := store.LoadEntries(ctx)
		require.NoError(t, err)
		require.Len(t, entries, 2)
	})
	t.Run("ES-8.5 nothing is left after an erase", func(t *testing.T) {
		require.NoError(t, store.Erase(ctx))
		require.NoError(t, keys.Erase())
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
		tokens, err := store.LoadTokens(ctx)
		require.NoError(t, err)
		require.Nil(t, tokens)
	})
}

func TestTokensAreLockedAcrossStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, _, err := localstore.OpenIn(dir)
	require.NoError(t, err)
	defer first.Close()
	second, _, err := localstore.OpenIn(dir)
	require.NoError(t, err)
	defer second.Close()
	release, err := first.LockTokens(t.Context())
	require.NoError(t, err)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = second.LockTokens(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	taken := make(chan func())
	go func() {
		release, err := second.LockTokens(t.Context())
		if err != nil {
			close(taken)
			return
		}
		taken <- release
	}()
	release()
	release, ok := <-taken
	require.True(t, ok)
	release()
}

func TestKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	keys := workspace.FileKeys{Dir: filepath.Join(t.TempDir(), "keys")}
	names := make(chan string, 8)
	for range cap(names) {
		go func() {
			key, err := keys.Key()
			if err != nil {
				names <- err.Error()
				return
			}
			names <- key.Thumbprint()
		}()
	}
	first := <-names
	require.Len(t, first, 43)
	for range cap(names) - 1 {
		require.Equal(t, first, <-names)
	}
}
