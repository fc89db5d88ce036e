package transfer

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// source is an export: files, in a folder, a zip file, or alone.
type source struct {
	files fs.FS
	// single is the name of the one file of an export that is a file.
	single string
	total  int64
	close  func()
}

// open opens an export. A zip file is known by its beginning, not by its name.
func open(name string, format Format) (*source, error) {
	if format != Slack && format != Mattermost {
		return nil, fmt.Errorf("read export: the format %q is neither slack nor mattermost", format)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read export: %w", err)
	}
	if info.IsDir() {
		return &source{files: os.DirFS(name), close: func() {}}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read export: %w", err)
	}
	begin, err := bufio.NewReaderSize(file, 16).Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		_ = file.Close()
		return nil, fmt.Errorf("read export: %w", err)
	}
	if string(begin) != "PK\x03\x04" && string(begin) != "PK\x05\x06" {
		_ = file.Close()
		return openSingle(name, format, info.Size())
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("read zip file %s: %w", name, err)
	}
	return &source{files: archive, total: unpacked(archive), close: func() { _ = file.Close() }}, nil
}

// unpacked is how much there is to read in a zip file, as it says itself.
func unpacked(archive *zip.Reader) int64 {
	var total int64
	for _, entry := range archive.File {
		switch path.Ext(entry.Name) {
		case ".json", ".jsonl":
			if size := int64(entry.UncompressedSize64); size >= 0 && total+size >= 0 {
				total += size
			}
		}
	}
	return total
}

func openSingle(name string, format Format, size int64) (*source, error) {
	if format == Slack {
		return nil, fmt.Errorf("read export: %s is neither a folder nor a zip file, which an export of Slack is", name)
	}
	folder, base := filepath.Split(name)
	if folder == "" {
		folder = "."
	}
	return &source{files: os.DirFS(folder), single: base, total: size, close: func() {}}, nil
}

// defaultSource names an export after its format and file.
func defaultSource(format Format, file string) string {
	const most = 150
	base := []rune(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	return string(format) + ":" + string(base[:min(len(base), most)])
}

// root answers the folder within the export that has a file with this name: some tools put everything into
// one folder.
func (s *source) root(name string) (fs.FS, error) {
	if _, err := fs.Stat(s.files, name); err == nil {
		return s.files, nil
	}
	entries, err := fs.ReadDir(s.files, ".")
	if err != nil {
		return nil, fmt.Errorf("read export: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if _, err := fs.Stat(s.files, path.Join(entry.Name(), name)); err == nil {
			sub, err := fs.Sub(s.files, entry.Name())
			if err != nil {
				return nil, fmt.Errorf("read export: %w", err)
			}
			return sub, nil
		}
	}
	return nil, fmt.Errorf("read export: it has no %s", name)
}

// counted counts what is read of the export.
type counted struct {
	io.Reader

	count *int64
}

func (c counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	*c.count += int64(n)
	return n, err //nolint:wrapcheck // io.EOF must stay itself
}
