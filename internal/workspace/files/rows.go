package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// mediaType is a media type of RFC 9110 section 8.3.1, with or without parameters.
var mediaType = regexp.MustCompile(`^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *; *[A-Za-z0-9!#$&^_.+-]+=("[ !#-\[\]-~]*"|[A-Za-z0-9!#$&^_.+-]+))*$`)

func mimeType(text string) bool { return mediaType.MatchString(text) }

const columns = `f.id, f.uploaded_by, f.purpose, f.upload_state, f.scan_status, f.transcript_status, f.original_name, f.size_bytes,
	f.mime_type, f.sha256, f.thumbnails, f.created_at, f.deleted_at, f.version`

func scan(row storage.Row) (wire.File, error) {
	var f wire.File
	var sha256 *string
	var thumbnails []byte
	err := row.Scan(&f.ID, &f.UploadedBy, &f.Purpose, &f.UploadState, &f.ScanStatus, &f.TranscriptStatus, &f.OriginalName, &f.SizeBytes,
		&f.MimeType, &sha256, &thumbnails, &f.CreatedAt, &f.DeletedAt, &f.Version)
	if err != nil {
		return f, err
	}
	if sha256 != nil {
		f.SHA256 = *sha256
	}
	f.Thumbnails = []json.RawMessage{}
	if thumbnails != nil {
		if err := json.Unmarshal(thumbnails, &f.Thumbnails); err != nil {
			return f, fmt.Errorf("decode thumbnails: %w", err)
		}
	}
	return f, nil
}

func read(tx storage.Tx, query string, args ...any) ([]wire.File, error) {
	var all []wire.File
	err := tx.Query(query, args, func(row storage.Row) error {
		file, err := scan(row)
		all = append(all, file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read files: %w", err)
	}
	return all, nil
}

func fileOf(tx storage.Tx, id string) (wire.File, bool, error) {
	all, err := read(tx, `SELECT `+columns+` FROM files f WHERE f.id = $1`, id)
	if err != nil || len(all) == 0 {
		return wire.File{}, false, err
	}
	return all[0], true, nil
}

// Load answers files by their ids; an id that names none is missing in the answer.
func Load(tx storage.Tx, ids []string) (map[string]wire.File, error) {
	byID := make(map[string]wire.File, len(ids))
	if len(ids) == 0 {
		return byID, nil
	}
	all, err := read(tx, `SELECT `+columns+` FROM files f WHERE f.id = ANY($1)`, ids)
	for _, file := range all {
		byID[file.ID] = file
	}
	return byID, err
}

// holder is a channel with a message that holds a file; several messages of one thread are one holder.
type holder struct {
	authz.Place

	threadID string
}

// maxHolders bounds the places one file is told to; a file is rarely in two.
const maxHolders = 1000

// holders answers where messages that are not deleted hold a file.
func holders(tx storage.Tx, id string) ([]holder, error) {
	var all []holder
	err := tx.Query(
		`SELECT t.channel_id, min(t.id), c.space_id, c.archived_at IS NOT NULL, c.read_only, s.archived_at IS NOT NULL
		   FROM message_files h JOIN messages m ON m.id = h.message_id JOIN threads t ON t.id = m.thread_id
		   JOIN channels c ON c.id = t.channel_id JOIN spaces s ON s.id = c.space_id
		  WHERE h.file_id = $1 AND m.deleted_at IS NULL
		  GROUP BY t.channel_id, c.space_id, c.archived_at, c.read_only, s.archived_at ORDER BY t.channel_id LIMIT $2`,
		[]any{id, maxHolders}, func(row storage.Row) error {
			var h holder
			err := row.Scan(&h.ChannelID, &h.threadID, &h.SpaceID, &h.Archived, &h.ReadOnly, &h.SpaceArchived)
			all = append(all, h)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read where a file is held: %w", err)
	}
	return all, nil
}

// holdingThreads answers the threads with a message that holds a file, by id.
func holdingThreads(tx storage.Tx, id string) ([]string, error) {
	var all []string
	err := tx.Query(`SELECT DISTINCT m.thread_id FROM message_files h JOIN messages m ON m.id = h.message_id
		  WHERE h.file_id = $1 AND m.deleted_at IS NULL ORDER BY m.thread_id`,
		[]any{id}, func(row storage.Row) error {
			var thread string
			err := row.Scan(&thread)
			all = append(all, thread)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read which threads hold a file: %w", err)
	}
	return all, nil
}

// errHeld says that a message has taken the file since its threads were read.
var errHeld = errors.New("more threads hold the file")

// heldTries is how often a change is begun again because of errHeld.
const heldTries = 10

// change writes something about a file that its threads are told: it locks the file, and before it the threads
// that hold it, so that none moves to another channel between the reading of its place and its place in the
// log. No message takes the file while it is locked.
func change[T any](ctx context.Context, s *Service, id string, keys []storage.Key, fn func(storage.Tx) (T, error)) (out T, err error) {
	for range heldTries {
		out, err = changeOnce(ctx, s, id, keys, fn)
		if !errors.Is(err, errHeld) {
			return out, err
		}
	}
	return out, fault.New(code.Unavailable, "The file is being attached to many messages. Try again.").WithCause(err)
}

func changeOnce[T any](ctx context.Context, s *Service, id string, keys []storage.Key, fn func(storage.Tx) (T, error)) (T, error) {
	threads, err := storage.Read(ctx, s.DB, func(tx storage.Tx) ([]string, error) { return holdingThreads(tx, id) })
	if err != nil {
		var none T
		return none, err
	}
	locked := make(map[string]bool, len(threads))
	all := append(lockFile(id), keys...)
	for _, thread := range threads {
		locked[thread] = true
		all = append(all, storage.Key{Lock: storage.LockThreads, ID: thread})
	}
	return storage.Write(ctx, s.DB, all, func(tx storage.Tx) (T, error) {
		var none T
		threads, err := holdingThreads(tx, id)
		if err != nil {
			return none, err
		}
		for _, thread := range threads {
			if !locked[thread] {
				return none, errHeld
			}
		}
		return fn(tx)
	})
}

// tell writes file.updated for each channel with a message that holds the file. The caller holds the locks of
// change, or knows that no message holds it.
func (s *Service) tell(tx storage.Tx, actor wire.Actor, correlation string, file wire.File) error {
	held, err := holders(tx, file.ID)
	if err != nil {
		return err
	}
	for _, h := range held {
		err := s.Log.Emit(tx, eventlog.Event{
			Type: eventlog.FileUpdated, Actor: actor, Scope: wire.Scope{SpaceID: h.SpaceID, ChannelID: h.ChannelID, ThreadID: h.threadID},
			ResourceID: file.ID, ResourceVersion: file.Version, Payload: wire.FileEvent{File: file}, CorrelationID: correlation,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
