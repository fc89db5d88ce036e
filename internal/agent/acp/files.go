package acp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"
)

// maxRead is the most bytes that one request reads.
const maxRead = 16 << 20

// files serves files inside a folder. os.Root sees to it that nothing leads out, not even a link that is
// swapped in while a request runs.
type files struct {
	root  *os.Root
	names []string // the folder as it was named, and as it is called without links
}

func openFiles(folder string) (*files, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("open root of agent: %w", err)
	}
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resolve root of agent: %w", err), root.Close())
	}
	return &files{root: root, names: []string{folder, resolved}}, nil
}

func (f *files) close() error { return f.root.Close() } //nolint:wrapcheck // nothing is lost with it

// inside makes a path of the agent relative to the folder. It does not clean it: os.Root walks ".." as it is
// meant, after the links before it.
func (f *files) inside(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("path is required")
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("path %q has a zero byte", path)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("path %q is not absolute", path)
	}
	for _, name := range f.names {
		rest, ok := strings.CutPrefix(path, name)
		if !ok || rest != "" && !os.IsPathSeparator(rest[0]) && !os.IsPathSeparator(name[len(name)-1]) {
			continue
		}
		for rest != "" && os.IsPathSeparator(rest[0]) {
			rest = rest[1:]
		}
		if rest == "" {
			rest = "."
		}
		return rest, nil
	}
	return "", fmt.Errorf("path %q is outside of %s", path, f.names[0])
}

// read answers a text file, or limit lines of it from line (from 1) on.
func (f *files) read(ctx context.Context, p acpsdk.ReadTextFileRequest) (acpsdk.ReadTextFileResponse, error) {
	text, err := f.text(ctx, p)
	if err != nil {
		return acpsdk.ReadTextFileResponse{}, fmt.Errorf("read %s: %w", p.Path, plain(err))
	}
	return acpsdk.ReadTextFileResponse{Content: text}, nil
}

func (f *files) text(ctx context.Context, p acpsdk.ReadTextFileRequest) (string, error) {
	path, err := f.inside(p.Path)
	if err != nil {
		return "", err
	}
	if p.Line != nil && *p.Line < 0 || p.Limit != nil && *p.Limit < 0 {
		return "", errors.New("line and limit must not be negative")
	}
	file, err := f.root.OpenFile(path, os.O_RDONLY|withoutWaiting, 0)
	if err != nil {
		return "", err //nolint:wrapcheck // read names the path
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return "", err //nolint:wrapcheck // as above
	}
	if err := regular(info); err != nil {
		return "", err
	}
	window := &window{ctx: ctx, from: file, skip: line(p.Line), left: -1}
	if p.Limit != nil {
		window.left = *p.Limit
	}
	text, err := io.ReadAll(io.LimitReader(window, maxRead+1))
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // as above
	case len(text) > maxRead:
		return "", fmt.Errorf("it has more than %d MiB: ask for fewer lines", maxRead>>20)
	case !utf8.Valid(text):
		return "", errors.New("it is no text in UTF-8")
	}
	return string(text), nil
}

// line is how many lines come before the one that is named.
func line(named *int) int {
	if named == nil {
		return 0
	}
	return max(*named-1, 0)
}

// window reads some of a file's lines.
type window struct {
	ctx  context.Context
	from io.Reader
	skip int // lines to leave out yet
	left int // lines to answer yet; negative for all
}

// Read answers bytes of the lines; it may answer none and no error.
func (w *window) Read(buffer []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if w.left == 0 {
		return 0, io.EOF
	}
	n, err := w.from.Read(buffer)
	read := buffer[:n]
	for w.skip > 0 && len(read) > 0 {
		end := bytes.IndexByte(read, '\n')
		if end < 0 {
			return 0, err //nolint:wrapcheck // read names the path
		}
		read = read[end+1:]
		w.skip--
	}
	kept := 0
	for w.left > 0 && kept < len(read) {
		end := bytes.IndexByte(read[kept:], '\n')
		if end < 0 {
			kept = len(read)
			break
		}
		kept += end + 1
		w.left--
	}
	if w.left >= 0 {
		read = read[:kept]
	}
	return copy(buffer, read), err
}

// regular refuses what is no ordinary file: reading a device or a FIFO may wait forever, or act.
func regular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("it is a folder")
	case !mode.IsRegular():
		return fmt.Errorf("it is no ordinary file (%s)", mode.Type())
	default:
		return nil
	}
}

// plain takes the operation and the path off an error of the system: they are said once, by the caller.
func plain(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}
