package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// DataKeyBytes is the length of the key of a local store.
const DataKeyBytes = 64

// KeyStore keeps the keys of a device: the one it proves itself with, and the one its local store is
// encrypted with. Both are made at their first use and stay the same. It is safe for concurrent use.
type KeyStore interface {
	// Key answers the DPoP key.
	Key() (*Key, error)
	// DataKey answers the key of the local store, DataKeyBytes long.
	DataKey() ([]byte, error)
	// Erase removes both: what was encrypted cannot be read any more.
	Erase() error
}

// FileKeys keeps keys in two files of a folder that only its owner can read (0700, files 0600). Several
// processes may use one folder.
type FileKeys struct {
	// Dir is made when it is not there.
	Dir string
}

const (
	proofKeyFile = "dpop.pem"
	dataKeyFile  = "store.key"
)

// Key answers the DPoP key.
func (f FileKeys) Key() (*Key, error) {
	text, err := f.keep(proofKeyFile, func() ([]byte, error) {
		made, err := NewKey()
		if err != nil {
			return nil, err
		}
		return made.PEM()
	})
	if err != nil {
		return nil, err
	}
	return ParseKey(text)
}

// DataKey answers the key of the local store.
func (f FileKeys) DataKey() ([]byte, error) {
	text, err := f.keep(dataKeyFile, func() ([]byte, error) {
		return []byte(hex.EncodeToString(newDataKey()) + "\n"), nil
	})
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != DataKeyBytes {
		return nil, fmt.Errorf("read %s: it is no key of %d bytes", filepath.Join(f.Dir, dataKeyFile), DataKeyBytes)
	}
	return key, nil
}

// Erase removes both files.
func (f FileKeys) Erase() error {
	var failed error
	for _, name := range []string{proofKeyFile, dataKeyFile} {
		if err := os.Remove(filepath.Join(f.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("remove key: %w", err))
		}
	}
	return failed
}

// keep answers the content of a file, which the first caller makes: it is written aside and linked into
// its place, so that of two processes one wins and nobody reads half a key.
func (f FileKeys) keep(name string, create func() ([]byte, error)) ([]byte, error) {
	path := filepath.Join(f.Dir, name)
	text, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return nil, fmt.Errorf("read key: %w", err)
		}
		return text, nil
	}
	made, err := create()
	if err != nil {
		return nil, err
	}
	if err := f.place(path, made); err != nil {
		return nil, err
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return text, nil
}

func (f FileKeys) place(path string, content []byte) (err error) {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder of keys: %w", err)
	}
	aside, err := os.CreateTemp(f.Dir, ".key-*") // 0600
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	defer func() { _ = os.Remove(aside.Name()) }()
	_, err = aside.Write(content)
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := os.Link(aside.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

// MemoryKeys keeps keys for the life of the process. The zero value is ready.
type MemoryKeys struct {
	mu   sync.Mutex // guards what follows
	key  *Key
	data []byte
}

// Key answers the DPoP key.
func (m *MemoryKeys) Key() (*Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key == nil {
		made, err := NewKey()
		if err != nil {
			return nil, err
		}
		m.key = made
	}
	return m.key, nil
}

// DataKey answers the key of the local store.
func (m *MemoryKeys) DataKey() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		m.data = newDataKey()
	}
	return m.data, nil
}

// Erase forgets both.
func (m *MemoryKeys) Erase() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key, m.data = nil, nil
	return nil
}

func newDataKey() []byte {
	key := make([]byte, DataKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}
