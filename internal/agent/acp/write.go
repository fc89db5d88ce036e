package acp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	acpsdk "github.com/coder/acp-go-sdk"
)

// maxLinks is how many symbolic links in a row are followed to the file that is written.
const maxLinks = 16

// write puts a text into a file, whole or not at all: it goes into a file beside it, which takes its place. The
// mode stays; folders that are missing are made; a link is followed, and stays a link.
func (f *files) write(_ context.Context, p acpsdk.WriteTextFileRequest) (acpsdk.WriteTextFileResponse, error) {
	if err := f.replace(p.Path, p.Content); err != nil {
		return acpsdk.WriteTextFileResponse{}, fmt.Errorf("write %s: %w", p.Path, plain(err))
	}
	return acpsdk.WriteTextFileResponse{}, nil
}

func (f *files) replace(named, text string) error {
	path, err := f.inside(named)
	if err != nil {
		return err
	}
	path, info, err := f.target(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o666) // less the umask
	if info != nil {
		if err := regular(info); err != nil {
			return err
		}
		if mode = info.Mode().Perm(); mode&0o222 == 0 {
			return errors.New("it is read-only")
		}
	}
	folder, name := filepath.Split(path)
	if folder != "" {
		if err := f.root.MkdirAll(filepath.Clean(folder), 0o777); err != nil { // less the umask
			return err //nolint:wrapcheck // write names the path
		}
	}
	beside := folder + "." + name[:min(len(name), 100)] + ".new"
	return f.swap(beside, path, text, mode, info != nil)
}

// swap writes a new file and gives it the name of the old one.
func (f *files) swap(beside, path, text string, mode fs.FileMode, exact bool) (err error) {
	file, beside, err := f.fresh(beside, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.root.Remove(beside)
		}
	}()
	_, err = file.WriteString(text)
	if err == nil && exact {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync() // else a loss of power could leave an empty file in place of the old one
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return f.root.Rename(beside, path) //nolint:wrapcheck // write names the path
}

// fresh makes a file that was not there, beside the one that is written.
func (f *files) fresh(beside string, mode fs.FileMode) (*os.File, string, error) {
	for try := range 100 {
		name := fmt.Sprintf("%s%d", beside, try)
		file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
		if !errors.Is(err, fs.ErrExist) {
			return file, name, err //nolint:wrapcheck // write names the path
		}
	}
	return nil, "", errors.New("its folder is full of unfinished copies of it")
}

// target follows symbolic links to the file that is meant; info is nil when it is not there yet.
func (f *files) target(path string) (string, fs.FileInfo, error) {
	for range maxLinks {
		info, err := f.root.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil, nil
		}
		if err != nil {
			return "", nil, err //nolint:wrapcheck // write names the path
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return path, info, nil
		}
		link, err := f.root.Readlink(path)
		if err != nil {
			return "", nil, err //nolint:wrapcheck // as above
		}
		if filepath.IsAbs(link) {
			return "", nil, errors.New("it is a symbolic link to an absolute path")
		}
		folder, _ := filepath.Split(path)
		path = folder + link // not cleaned: os.Root walks ".." after the links before it
	}
	return "", nil, errors.New("too many symbolic links")
}
