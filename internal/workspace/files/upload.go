package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Upload stores the bytes of an announced file. It is complete when Upload answers without an error. A
// broken upload begins again from the first byte; a repeat with the same bytes answers the file as it is,
// with others it is a conflict.
func (s *Service) Upload(ctx context.Context, by authz.Caller, fileID string, body io.Reader) (wire.File, error) {
	id, err := place.PathID("File", fileID)
	if err != nil {
		return wire.File{}, err
	}
	announced, err := storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.File, error) { return uploadable(tx, by, id) })
	if err != nil {
		return wire.File{}, err
	}
	up, err := s.receive(ctx, body, announced.SizeBytes)
	if err != nil {
		return wire.File{}, err
	}
	if announced.UploadState == UploadComplete {
		defer s.store.drop(up)
		return repeated(announced, up)
	}
	name, err := s.store.keep(up)
	if err != nil {
		s.store.drop(up)
		return wire.File{}, err
	}
	return s.complete(ctx, by, id, name, up)
}

// uploadable answers a file whose bytes the caller may bring.
func uploadable(tx storage.Tx, by authz.Caller, id string) (wire.File, error) {
	file, found, err := fileOf(tx, id)
	if err != nil {
		return wire.File{}, err
	}
	if !found {
		return wire.File{}, fault.Missing("File")
	}
	if file.UploadedBy != by.Principal {
		if _, err := readable(tx, by, id); err != nil {
			return wire.File{}, err
		}
		return wire.File{}, fault.New(code.Forbidden, "Only who announced a file may upload it.")
	}
	if _, err := authz.Check(tx, by, action.FileCreate, authz.Resource{What: "File", Owner: by.Principal}); err != nil {
		return wire.File{}, err
	}
	if file.DeletedAt != nil {
		return wire.File{}, fault.Missing("File")
	}
	return file, nil
}

// receive takes the bytes in and compares their number with the announcement.
func (s *Service) receive(ctx context.Context, body io.Reader, size int64) (upload, error) {
	up, err := s.store.receive(reader{ctx, body}, size)
	switch {
	case errors.Is(err, errLong):
		return up, fault.Invalid("/size_bytes", "announces %d bytes and there are more", size)
	case err != nil:
		return up, err
	case up.size != size:
		s.store.drop(up)
		return up, fault.Invalid("/size_bytes", "announces %d bytes and there are %d", size, up.size)
	default:
		return up, nil
	}
}

// reader ends with its context.
type reader struct {
	ctx  context.Context
	from io.Reader
}

func (r reader) Read(into []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(into) //nolint:wrapcheck // io.EOF must stay itself
}

func repeated(file wire.File, up upload) (wire.File, error) {
	if file.SHA256 != up.sha256 {
		return wire.File{}, fault.New(code.Conflict, "The file is complete, with other bytes.")
	}
	return file, nil
}

// complete makes the row say that the bytes are there. Bytes that turn out not to be needed, because their
// content was there before, are removed after the commit.
func (s *Service) complete(ctx context.Context, by authz.Caller, id, name string, up upload) (wire.File, error) {
	keys := []storage.Key{by.Lock(), {Lock: storage.LockBlobs, ID: up.sha256}}
	return change(ctx, s, id, keys, func(tx storage.Tx) (wire.File, error) {
		file, err := uploadable(tx, by, id)
		if err != nil {
			return wire.File{}, err // the bytes are swept later
		}
		if file.UploadState == UploadComplete {
			s.forget(tx, name)
			return repeated(file, up)
		}
		file.UploadState, file.SHA256, file.Version = UploadComplete, up.sha256, file.Version+1
		if s.Scanner == nil {
			file.ScanStatus = ScanSkipped
		}
		if err := s.link(tx, name, up); err != nil {
			return wire.File{}, err
		}
		err = tx.Exec(`UPDATE files SET upload_state = $2, sha256 = $3, scan_status = $4, version = $5 WHERE id = $1`,
			id, file.UploadState, file.SHA256, file.ScanStatus, file.Version)
		if err != nil {
			return wire.File{}, fmt.Errorf("complete file: %w", err)
		}
		tx.AfterCommit(s.wake)
		return file, s.tell(tx, by.Actor(), by.Correlation, file)
	})
}

// link makes name the content's, unless the content is there under another name.
func (s *Service) link(tx storage.Tx, name string, up upload) error {
	added, err := tx.Changed(
		`INSERT INTO file_blobs (sha256, name, size_bytes, created_at) VALUES ($1, $2, $3, $4)
		 ON CONFLICT (sha256) DO NOTHING`, up.sha256, name, up.size, tx.Now())
	if err != nil {
		return fmt.Errorf("write content: %w", err)
	}
	if added > 0 {
		return nil
	}
	if err := tx.Exec(`UPDATE file_blobs SET unused_at = NULL WHERE sha256 = $1`, up.sha256); err != nil {
		return fmt.Errorf("use content again: %w", err)
	}
	s.forget(tx, name)
	return nil
}

// forget removes a name after the commit that does not need it.
func (s *Service) forget(tx storage.Tx, name string) {
	tx.AfterCommit(func() {
		if err := s.store.remove(name); err != nil {
			s.Logger.Warn("remove a content that was there before", "error", err) // it is swept later
		}
	})
}

// Content is the bytes of a file. Close it.
type Content struct {
	io.ReadSeekCloser

	File wire.File
}

// Open answers the bytes of a file that was scanned, to whoever may read it (Get).
func (s *Service) Open(ctx context.Context, by authz.Caller, fileID string) (*Content, error) {
	id, err := place.PathID("File", fileID)
	if err != nil {
		return nil, err
	}
	var file wire.File
	var name string
	err = s.DB.Read(ctx, func(tx storage.Tx) error {
		if file, err = readable(tx, by, id); err != nil {
			return err
		}
		if err := servable(&file); err != nil {
			return err
		}
		name, err = nameOf(tx, file.SHA256)
		return err
	})
	if err != nil {
		return nil, err
	}
	bytes, err := os.Open(s.store.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.vanished(ctx, by, id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open content of file %s: %w", id, err)
	}
	return &Content{ReadSeekCloser: bytes, File: file}, nil
}

// vanished is why the bytes of a file are not there: it was deleted after it was looked up, or they are lost.
func (s *Service) vanished(ctx context.Context, by authz.Caller, id string, cause error) error {
	err := s.DB.Read(ctx, func(tx storage.Tx) error {
		file, err := readable(tx, by, id)
		if err != nil {
			return err
		}
		return servable(&file)
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("open content of file %s: %w", id, cause)
}

// servable refuses what has no bytes, or none that may leave the server; the reason says which.
func servable(file *wire.File) error {
	refuse := func(reason, message string) error {
		return fault.New(code.Conflict, "%s", message).WithDetails(fault.Extra{Reason: reason})
	}
	switch {
	case file.DeletedAt != nil:
		return fault.Missing("File")
	case file.UploadState != UploadComplete:
		return refuse("upload_pending", "The file was not uploaded yet.")
	case file.ScanStatus == ScanInfected:
		return refuse("infected", "The file is infected and not served.")
	case file.ScanStatus != ScanClean && file.ScanStatus != ScanSkipped:
		return refuse("scan_pending", "The file was not scanned yet.")
	default:
		return nil
	}
}

func nameOf(tx storage.Tx, sha256 string) (string, error) {
	var name string
	found, err := tx.Get(`SELECT name FROM file_blobs WHERE sha256 = $1`, []any{sha256}, &name)
	if err != nil {
		return "", fmt.Errorf("look for content: %w", err)
	}
	if !found {
		return "", fmt.Errorf("the content %s is not there", sha256)
	}
	return name, nil
}
