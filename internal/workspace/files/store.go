package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	uploads = "uploads"
	// strayAfter is how old something in the folder must be before it counts as left behind.
	strayAfter = 24 * time.Hour
)

// store is the folder of the contents: uploads/<random> while they come in, then <2 hex digits>/<SHA-256>.<random>.
type store struct {
	dir string
	env *env.Env
}

var errLong = errors.New("more bytes than announced")

// upload is content that has come in and is not named yet.
type upload struct {
	path   string
	sha256 string
	size   int64
}

// receive writes what body holds into a file of its own, flushed. Of more than most bytes it answers errLong.
func (s store) receive(body io.Reader, most int64) (up upload, err error) {
	folder := filepath.Join(s.dir, uploads)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return up, fmt.Errorf("make folder of uploads: %w", err)
	}
	up.path = filepath.Join(folder, s.env.RandomID())
	file, err := os.OpenFile(up.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return up, fmt.Errorf("make file of an upload: %w", err)
	}
	defer func() {
		if closing := file.Close(); err == nil && closing != nil {
			err = fmt.Errorf("close file of an upload: %w", closing)
		}
		if err != nil {
			s.drop(up)
		}
	}()
	hash := sha256.New()
	up.size, err = io.Copy(io.MultiWriter(file, hash), io.LimitReader(body, most+1))
	if err != nil {
		return up, fmt.Errorf("write upload: %w", err)
	}
	if up.size > most {
		return up, errLong
	}
	if err := file.Sync(); err != nil {
		return up, fmt.Errorf("flush upload: %w", err)
	}
	up.sha256 = hex.EncodeToString(hash.Sum(nil))
	return up, nil
}

// keep gives an upload a name of its own and answers it. After that the content survives a crash.
func (s store) keep(up upload) (string, error) {
	folder := up.sha256[:2]
	if err := os.MkdirAll(filepath.Join(s.dir, folder), 0o700); err != nil {
		return "", fmt.Errorf("make folder of contents: %w", err)
	}
	name := folder + "/" + up.sha256 + "." + s.env.RandomID()
	if err := os.Rename(up.path, s.path(name)); err != nil {
		return "", fmt.Errorf("name upload: %w", err)
	}
	for _, changed := range []string{filepath.Join(s.dir, folder), s.dir} {
		if err := syncFolder(changed); err != nil {
			return "", err
		}
	}
	return name, nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open folder of contents: %w", err)
	}
	defer func() { _ = folder.Close() }()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("flush folder of contents: %w", err)
	}
	return nil
}

func (s store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// drop forgets an upload that was not kept.
func (store) drop(up upload) { _ = os.Remove(up.path) } // what stays is swept later

// remove removes a content; one that is gone already is no error.
func (s store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove content: %w", err)
	}
	return nil
}

// strays hands names that are older than strayAfter to visit, at most step at a time.
func (s store) strays(visit func(names []string) error) error {
	var names []string
	err := filepath.WalkDir(s.dir, func(at string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile, or nothing was ever uploaded
		}
		if err != nil || entry.IsDir() {
			return err
		}
		if name := s.stray(at, entry); name != "" {
			names = append(names, name)
		}
		if len(names) < step {
			return nil
		}
		full := names
		names = nil
		return visit(full)
	})
	if err == nil && len(names) > 0 {
		err = visit(names)
	}
	if err != nil {
		return fmt.Errorf("look through the folder of files: %w", err)
	}
	return nil
}

// stray answers the name of something old that the store made, or "".
func (s store) stray(at string, entry fs.DirEntry) string {
	relative, err := filepath.Rel(s.dir, at)
	if err != nil {
		return ""
	}
	name := filepath.ToSlash(relative)
	if !ours(name) {
		return ""
	}
	if info, err := entry.Info(); err != nil || s.env.Now().Sub(info.ModTime()) < strayAfter {
		return ""
	}
	return name
}

// ours reports whether a name is one the store makes: nothing else in the folder is touched.
func ours(name string) bool {
	folder, file, found := strings.Cut(name, "/")
	if !found || strings.Contains(file, "/") {
		return false
	}
	if folder == uploads {
		_, ok := env.ParseID(file)
		return ok
	}
	sum, random, found := strings.Cut(file, ".")
	_, ok := env.ParseID(random)
	return found && ok && len(sum) == sha256.Size*2 && sum[:2] == folder
}
