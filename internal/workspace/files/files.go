// Package files is what people attach to messages: announced, uploaded, scanned, served, and removed when
// nothing holds it any more (workspace specification, sections 1 and 7).
//
// Contract. A file is announced with its size and then uploaded; it is complete once its bytes are on the
// disk, flushed, and its row is committed. Contents are stored once, by their SHA-256, in one folder that all
// nodes share. The bytes are served only after the scan (clean), or where there is no scanner (skipped), to
// the uploader and to whoever may read one message that holds the file. A deleted file keeps its id and
// nothing that tells of its content; the events that told of it are redacted (ES-2.2), and the bytes go when
// no other file has them.
//
// Order. An upload may be repeated until one is complete; of several at once the first that commits counts.
// A name in the folder is used once: the row goes first and the bytes after it, so that the same content may
// be uploaded meanwhile. What a crash leaves in the folder without a row is swept away after a day.
//
// What the specification leaves open is decided here: file.updated goes to each channel with a message that
// holds the file, and there is none for a file that no message holds: its uploader asks for it. An upload
// that is not complete after AbandonedAfter, and a complete file that neither a message nor a draft holds
// after UnusedAfter, are deleted.
//
// Blocking and concurrency. A Service is safe for concurrent use; operations wait for the database and the
// disk, never for the disk inside a transaction. A Worker is one goroutine between Start and Stop.
package files

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The states of a file.
const (
	UploadPending  = "pending"
	UploadComplete = "complete"

	ScanPending  = "pending"
	ScanClean    = "clean"
	ScanInfected = "infected"
	ScanSkipped  = "skipped"
)

const (
	// AbandonedAfter is how long an upload may take from its announcement.
	AbandonedAfter = 24 * time.Hour
	// UnusedAfter is how long a complete file may wait for the message that holds it.
	UnusedAfter = 7 * 24 * time.Hour
	// maxAnnounced bounds the uploads of one principal that are not complete.
	maxAnnounced = 100

	maxName = 255
)

// Options are what a Service needs.
type Options struct {
	DB  storage.DB
	Log *eventlog.Log
	Env *env.Env
	// Logger is told of what the worker could not do.
	Logger *slog.Logger
	// Dir is file.dir. It is made when something is uploaded first.
	Dir string
	// MaxBytes is file.max_bytes.
	MaxBytes int64
	// Scanner is nil where nothing scans (file.scanner none).
	Scanner Scanner
}

// Service is the operations on files. Make it with New.
type Service struct {
	Options

	store store
	woken chan struct{} // the worker has something to do
}

// New makes the service.
func New(o Options) *Service {
	return &Service{Options: o, store: store{dir: o.Dir, env: o.Env}, woken: make(chan struct{}, 1)}
}

// Create announces an upload.
func (s *Service) Create(ctx context.Context, by authz.Caller, in wire.NewFile) (wire.File, error) {
	if err := s.check(&in); err != nil {
		return wire.File{}, err
	}
	id := s.Env.NewID()
	return storage.Write(ctx, s.DB, []storage.Key{by.Lock()}, func(tx storage.Tx) (wire.File, error) {
		if _, err := authz.Check(tx, by, action.FileCreate, authz.Resource{What: "File"}); err != nil {
			return wire.File{}, err
		}
		return idempotency.OnceByID(tx, by.Key, func() (wire.File, error) {
			if err := roomToAnnounce(tx, by.Principal); err != nil {
				return wire.File{}, err
			}
			file := wire.File{
				ID: id, UploadedBy: by.Principal, Purpose: in.Purpose, UploadState: UploadPending, ScanStatus: ScanPending,
				TranscriptStatus: "none", OriginalName: in.OriginalName, SizeBytes: in.SizeBytes, MimeType: in.MimeType,
				Thumbnails: []json.RawMessage{}, CreatedAt: tx.Now(), Version: 1,
			}
			return file, insert(tx, file)
		}, func(f wire.File) string { return f.ID }, func(id string) (wire.File, error) {
			file, found, err := fileOf(tx, id)
			if err == nil && !found {
				err = fault.Missing("File")
			}
			return file, err
		})
	})
}

func (s *Service) check(in *wire.NewFile) error {
	if err := place.Text("/original_name", in.OriginalName, maxName); err != nil {
		return err
	}
	if err := place.Text("/mime_type", in.MimeType, maxName); err != nil {
		return err
	}
	if in.Purpose == "" {
		in.Purpose = "attachment"
	}
	name := strings.TrimSpace(in.OriginalName)
	switch {
	case name == "" || name == "." || name == ".." || path.Base(name) != name || strings.ContainsAny(name, "\\\r\n"):
		return fault.Invalid("/original_name", "must be the name of a file, without folders")
	case !mimeType(in.MimeType):
		return fault.Invalid("/mime_type", "must be a media type such as image/png")
	case in.Purpose != "attachment":
		return fault.Invalid("/purpose", "must be attachment")
	case in.SizeBytes < 0:
		return fault.Invalid("/size_bytes", "must be at least 0")
	case in.SizeBytes > s.MaxBytes:
		return fault.New(code.PayloadTooLarge, "A file has at most %d bytes.", s.MaxBytes)
	default:
		return nil
	}
}

func insert(tx storage.Tx, f wire.File) error {
	err := tx.Exec(
		`INSERT INTO files (id, uploaded_by, purpose, upload_state, scan_status, transcript_status, original_name, size_bytes, mime_type, created_at)
		 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		f.ID, f.UploadedBy, f.Purpose, f.UploadState, f.ScanStatus, f.TranscriptStatus, f.OriginalName, f.SizeBytes, f.MimeType, f.CreatedAt)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

func roomToAnnounce(tx storage.Tx, principal string) error {
	var waiting int
	_, err := tx.Get(`SELECT count(*) FROM files WHERE uploaded_by = $1 AND upload_state = 'pending' AND deleted_at IS NULL`,
		[]any{principal}, &waiting)
	if err != nil {
		return fmt.Errorf("count announced files: %w", err)
	}
	if waiting >= maxAnnounced {
		return fault.New(code.Conflict, "%d uploads wait to be completed; complete or delete some first.", maxAnnounced)
	}
	return nil
}

// Get answers a file to its uploader and to whoever may read a message that holds it.
func (s *Service) Get(ctx context.Context, by authz.Caller, fileID string) (wire.File, error) {
	id, err := place.PathID("File", fileID)
	if err != nil {
		return wire.File{}, err
	}
	return storage.Read(ctx, s.DB, func(tx storage.Tx) (wire.File, error) { return readable(tx, by, id) })
}

// readable answers a file that the caller may read.
func readable(tx storage.Tx, by authz.Caller, id string) (wire.File, error) {
	file, found, err := fileOf(tx, id)
	if err != nil {
		return wire.File{}, err
	}
	if !found {
		return wire.File{}, fault.Missing("File")
	}
	snapshot, err := authz.Check(tx, by, action.SelfRead, authz.Resource{What: "File"})
	if err != nil || file.UploadedBy == by.Principal {
		return file, err
	}
	held, err := holders(tx, id)
	if err != nil {
		return wire.File{}, err
	}
	for _, h := range held {
		resource := authz.Resource{What: "File", Place: h.Place, Owner: file.UploadedBy}
		if authz.Authorize(snapshot, by, action.FileRead, resource, tx.Now()) == nil {
			return file, nil
		}
	}
	return wire.File{}, fault.Missing("File")
}

// Delete deletes one of the caller's files. One that is deleted already stays so.
func (s *Service) Delete(ctx context.Context, by authz.Caller, fileID string, ifMatch *int64) error {
	id, err := place.PathID("File", fileID)
	if err != nil {
		return err
	}
	_, err = change(ctx, s, id, []storage.Key{by.Lock()}, func(tx storage.Tx) (struct{}, error) {
		file, found, err := fileOf(tx, id)
		if err != nil {
			return struct{}{}, err
		}
		if !found {
			return struct{}{}, fault.Missing("File")
		}
		if err := mayDelete(tx, by, &file); err != nil {
			return struct{}{}, err
		}
		return idempotency.Once(tx, by.Key, func() (struct{}, error) {
			if file.DeletedAt != nil {
				return struct{}{}, nil
			}
			if err := place.RequireVersion(ifMatch, file.Version, &file); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, s.delete(tx, by.Actor(), by.Correlation, file)
		})
	})
	return err
}

// mayDelete refuses with forbidden what the caller may read and does not own, and with not_found the rest.
func mayDelete(tx storage.Tx, by authz.Caller, file *wire.File) error {
	if file.UploadedBy != by.Principal {
		if _, err := readable(tx, by, file.ID); err != nil {
			return err
		}
		return fault.New(code.Forbidden, "Only who uploaded a file may do this.")
	}
	_, err := authz.Check(tx, by, action.FileDelete, authz.Resource{What: "File", Owner: file.UploadedBy})
	return err
}
