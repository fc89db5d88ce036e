package workspace

import (
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// filesByID reads files as messages show them.
func filesByID(tx storage.Tx, ids []string) (map[string]wire.File, error) {
	files := make(map[string]wire.File, len(ids))
	if len(ids) == 0 {
		return files, nil
	}
	err := tx.Query(`SELECT id, uploaded_by, purpose, upload_state, scan_status, transcript_status, original_name, size_bytes, mime_type,
		sha256, thumbnails, created_at, deleted_at, version FROM files WHERE id = ANY($1)`, []any{ids}, func(row storage.Row) error {
		var f wire.File
		var sha *string
		var thumbnails []byte
		err := row.Scan(&f.ID, &f.UploadedBy, &f.Purpose, &f.UploadState, &f.ScanStatus, &f.TranscriptStatus, &f.OriginalName, &f.SizeBytes,
			&f.MimeType, &sha, &thumbnails, &f.CreatedAt, &f.DeletedAt, &f.Version)
		if err != nil {
			return err
		}
		f.SHA256, f.Thumbnails = valueOf(sha), []json.RawMessage{}
		files[f.ID] = f
		return decodeLists(map[string]list{"thumbnails": {thumbnails, &f.Thumbnails}})
	})
	if err != nil {
		return nil, fmt.Errorf("read files: %w", err)
	}
	return files, nil
}

// checkFileIDs answers the canonical ids of attachments.
func (s *Service) checkFileIDs(ids []string) ([]string, error) {
	if len(ids) > s.maxAttachments {
		return nil, fault.Invalid("/file_ids", "must name at most %d files", s.maxAttachments)
	}
	seen := make(map[string]bool, len(ids))
	canonical := make([]string, len(ids))
	for i, id := range ids {
		id, err := place.BodyID(fmt.Sprintf("/file_ids/%d", i), id)
		if err != nil {
			return nil, err
		}
		if seen[id] {
			return nil, fault.Invalid(fmt.Sprintf("/file_ids/%d", i), "stands twice")
		}
		canonical[i], seen[id] = id, true
	}
	return canonical, nil
}

// filesToAttach reads files that a new message names: the caller's own, complete, and not found infected.
func filesToAttach(tx storage.Tx, by authz.Caller, ids []string) (map[string]wire.File, error) {
	files, err := filesByID(tx, ids)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		file, found := files[id]
		pointer := fmt.Sprintf("/file_ids/%d", i)
		switch {
		case !found, file.UploadedBy != by.Principal, file.DeletedAt != nil:
			return nil, unknown(pointer, "file")
		case file.UploadState != "complete":
			return nil, fault.Invalid(pointer, "names a file that is not uploaded yet")
		case file.ScanStatus == "infected":
			return nil, fault.Invalid(pointer, "names a file in which something harmful was found")
		}
	}
	return files, nil
}

var messageFiles = storage.Table{Name: "message_files", Columns: []storage.Column{
	{Name: "file_id", Type: storage.Text},
	{Name: "message_id", Type: storage.Text},
}}

func attach(tx storage.Tx, messageID string, fileIDs []string) error {
	rows := make([][]any, len(fileIDs))
	for i, id := range fileIDs {
		rows[i] = []any{id, messageID}
	}
	if err := tx.Insert(messageFiles, rows); err != nil {
		return fmt.Errorf("attach files: %w", err)
	}
	return nil
}

// detach takes the files from a message and hands those that no message holds any more to who owns files.
func (s *Service) detach(tx storage.Tx, by authz.Caller, messageID string, fileIDs []string) error {
	if len(fileIDs) == 0 {
		return nil
	}
	if err := tx.Exec(`DELETE FROM message_files WHERE message_id = $1`, messageID); err != nil {
		return fmt.Errorf("detach files: %w", err)
	}
	var unused []string
	err := tx.Query(`SELECT f.id FROM files f WHERE f.id = ANY($1) AND f.deleted_at IS NULL
		AND NOT EXISTS (SELECT 1 FROM message_files u WHERE u.file_id = f.id) ORDER BY f.id`, []any{fileIDs}, func(row storage.Row) error {
		var id string
		err := row.Scan(&id)
		unused = append(unused, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("find files nobody uses: %w", err)
	}
	if len(unused) == 0 || s.hooks.Released == nil {
		return nil
	}
	return s.hooks.Released(tx, by, unused)
}

// fileKeys locks files, so that none is attached while it is deleted.
func fileKeys(ids []string) []storage.Key {
	keys := make([]storage.Key, len(ids))
	for i, id := range ids {
		keys[i] = storage.Key{Lock: storage.LockFiles, ID: id}
	}
	return keys
}
