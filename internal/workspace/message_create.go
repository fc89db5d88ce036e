package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// posting is a request to write a message whose form was checked.
type posting struct {
	clientMsgID string
	content     string
	replyTo     string
	fileIDs     []string
	clearDraft  bool
	// hash is over everything a repeat must have in common with the first request (ES-5.1).
	hash string
}

// earlier is the message that the caller's client_msg_id made before, if any.
type earlier struct {
	id, hash *string
}

// CreateMessage writes a message at the end of a thread (ES-4, ES-5.1). It answers the message, and whether
// it is the one an earlier request with the same client_msg_id made: then nothing happens. A thread that was
// done is open again.
func (s *Service) CreateMessage(ctx context.Context, by authz.Caller, threadID string, in wire.NewMessage) (wire.Message, bool, error) {
	post, err := s.checkMessage(&in)
	if err != nil {
		return wire.Message{}, false, err
	}
	if threadID, err = place.PathID("Thread", threadID); err != nil {
		return wire.Message{}, false, err
	}
	post.hash = hashOf(threadID, post.content, post.replyTo, post.fileIDs)
	keys := append([]storage.Key{{Lock: storage.LockThreads, ID: threadID}, by.Lock()}, fileKeys(post.fileIDs)...)
	if post.clearDraft {
		keys = append(keys, storage.Key{Lock: storage.LockUsers, ID: by.Principal})
	}
	type answer struct {
		wire.Message

		replayed bool
	}
	ahead := storage.Prefetch{
		Query: openQuery, Args: []any{threadID, by.Principal, post.clientMsgID}, Claim: by.Principal + " " + post.clientMsgID,
	}
	out, err := writeOnce(ctx, s, keys, func(tx storage.Tx) (answer, error) {
		thread, before, err := s.openForMessage(tx, by, ahead)
		if err != nil {
			return answer{}, err
		}
		if before.id != nil {
			message, err := repeated(tx, by, before, post)
			return answer{message.Message, true}, err
		}
		message, err := s.post(tx, by, &thread, post)
		return answer{message, false}, err
	}, ahead)
	return out.Message, out.replayed, err
}

// writeOnce is storage.Write for what is safe to repeat by its client_msg_id. Should two requests with the
// same one race each other on different rows, the second finds the unique index in its way; asked again, it
// finds the first (ES-5.1).
func writeOnce[T any](ctx context.Context, s *Service, keys []storage.Key, fn func(storage.Tx) (T, error), ahead ...storage.Prefetch) (T, error) {
	out, err := storage.Write(ctx, s.db, keys, fn, ahead...)
	var refusal *fault.Error
	if err == nil || errors.As(err, &refusal) || ctx.Err() != nil {
		return out, err
	}
	return storage.Write(ctx, s.db, keys, fn, ahead...)
}

func (s *Service) checkMessage(in *wire.NewMessage) (post posting, err error) {
	post = posting{content: in.ContentMD, clearDraft: in.ClearDraft}
	if post.clientMsgID, err = clientID("/client_msg_id", in.ClientMsgID); err != nil {
		return post, err
	}
	if in.ReplyToID != "" {
		if post.replyTo, err = place.BodyID("/reply_to_id", in.ReplyToID); err != nil {
			return post, err
		}
	}
	if post.fileIDs, err = s.checkFileIDs(in.FileIDs); err != nil {
		return post, err
	}
	return post, s.checkContent(in.ContentMD, len(post.fileIDs) > 0)
}

// checkContent refuses a text that is too long, and a message with nothing in it.
func (s *Service) checkContent(content string, attached bool) error {
	if !attached && strings.TrimSpace(content) == "" {
		return fault.Invalid("/content_md", "must not be empty without files")
	}
	return place.Text("/content_md", content, s.maxChars)
}

// hashOf is over the canonical form of a request: a JSON array of its parts.
func hashOf(parts ...any) string {
	canonical, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("encode request: %v", err)) // strings and lists of them always encode
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// openQuery reads all that decides about a message in one step: its thread with what caps permissions there,
// the permission version, and the message that its client id has made before.
const openQuery = `SELECT ` + threadColumns + `, p.value, m.id, m.client_payload_sha256` + threadTables + `
	JOIN sequence_counters p ON p.name = 'permission_version'
	LEFT JOIN messages m ON m.author_id = $2 AND m.client_msg_id = $3
	WHERE t.id = $1`

func (s *Service) openForMessage(tx storage.Tx, by authz.Caller, ahead storage.Prefetch) (thread PlacedThread, before earlier, err error) {
	var version int64
	found := false
	err = tx.Query(ahead.Query, ahead.Args, func(row storage.Row) error {
		found = true
		return scanThread(row, &thread, &version, &before.id, &before.hash)
	})
	if err != nil {
		return thread, before, fmt.Errorf("read thread: %w", err)
	}
	if !found {
		return thread, before, fault.Missing("Thread")
	}
	snapshot, err := s.permissions(tx, by, version)
	if err != nil {
		return thread, before, err
	}
	resource := authz.Resource{What: "Thread", Place: thread.Place}
	return thread, before, authz.Authorize(snapshot, by, action.MessageCreate, resource, tx.Now())
}

// repeated answers the message that was made before, as it is now, to the same request; another request with
// its client id is refused.
func repeated(tx storage.Tx, by authz.Caller, before earlier, post posting) (PlacedMessage, error) {
	if valueOf(before.hash) != post.hash {
		return PlacedMessage{}, fault.New(code.IdempotencyKeyReuse, "This client_msg_id was used for another message.")
	}
	message, found, err := MessagePlace(tx, *before.id)
	if err != nil {
		return message, err
	}
	if !found {
		return message, fault.Missing("Message")
	}
	return message, Complete(tx, by.Principal, &message)
}

// post writes the message and moves its thread along.
func (s *Service) post(tx storage.Tx, by authz.Caller, thread *PlacedThread, post posting) (wire.Message, error) {
	if err := checkReply(tx, thread.ID, post.replyTo); err != nil {
		return wire.Message{}, err
	}
	message, err := s.compose(tx, by, thread, post)
	if err != nil {
		return wire.Message{}, err
	}
	reopened := thread.State == wire.ThreadDone
	thread.State = wire.ThreadOpen
	thread.LastMessageSeq = message.ThreadSeq
	thread.MessageCount++
	thread.LastActivityAt = message.CreatedAt
	thread.Version++
	if err := moveThreadOn(tx, thread); err != nil {
		return wire.Message{}, err
	}
	if reopened {
		if err := s.tellThread(tx, by, eventlog.ThreadReopened, thread); err != nil {
			return wire.Message{}, err
		}
	}
	if err := s.storeMessage(tx, by, thread, &message, post); err != nil {
		return wire.Message{}, err
	}
	if post.clearDraft && s.hooks.ClearDraft != nil {
		return message, s.hooks.ClearDraft(tx, by, thread.Scope())
	}
	return message, nil
}

func checkReply(tx storage.Tx, threadID, replyTo string) error {
	if replyTo == "" {
		return nil
	}
	var one int64
	found, err := tx.Get(`SELECT 1 FROM messages WHERE id = $1 AND thread_id = $2`, []any{replyTo, threadID}, &one)
	if err != nil {
		return fmt.Errorf("look for the message replied to: %w", err)
	}
	if !found {
		return unknown("/reply_to_id", "message of this thread")
	}
	return nil
}

// compose decides what the message is; nothing is written.
func (s *Service) compose(tx storage.Tx, by authz.Caller, thread *PlacedThread, post posting) (wire.Message, error) {
	files, err := filesToAttach(tx, by, post.fileIDs)
	if err != nil {
		return wire.Message{}, err
	}
	mentions, err := mentioned(tx, thread.Place, post.content)
	if err != nil {
		return wire.Message{}, err
	}
	origin := wire.OriginAgent
	if by.Kind == wire.KindUser {
		origin = wire.OriginHuman
	}
	return wire.Message{
		ID: s.env.NewID(), ThreadID: thread.ID, ChannelID: thread.ChannelID, ThreadSeq: thread.LastMessageSeq + 1,
		Author: wire.Author{ID: by.Principal, Kind: by.Kind}, ClientMsgID: post.clientMsgID, Origin: origin, Kind: "text",
		ContentMD: post.content, ReplyToID: post.replyTo, Attachments: attachments(post.fileIDs, files), MentionIDs: mentions,
		Components: []json.RawMessage{}, Reactions: []wire.Reaction{}, CreatedAt: tx.Now(), Version: 1,
	}, nil
}

// moveThreadOn writes what a message changes about its thread: the row was read under its lock, so that
// nothing has to come back.
func moveThreadOn(tx storage.Tx, thread *PlacedThread) error {
	err := tx.Exec(`UPDATE threads SET state = $2, last_message_seq = $3, message_count = $4, last_activity_at = $5, version = $6 WHERE id = $1`,
		thread.ID, thread.State, thread.LastMessageSeq, thread.MessageCount, thread.LastActivityAt, thread.Version)
	if err != nil {
		return fmt.Errorf("move thread on: %w", err)
	}
	return nil
}

// messageTable is what a new message sets.
var messageTable = storage.Table{Name: "messages", Apart: true, Columns: []storage.Column{
	{Name: "id", Type: storage.Text}, {Name: "thread_id", Type: storage.Text}, {Name: "thread_seq", Type: storage.Bigint},
	{Name: "author_id", Type: storage.Text}, {Name: "author_kind", Type: storage.Text}, {Name: "client_msg_id", Type: storage.Text},
	{Name: "client_payload_sha256", Type: storage.Text}, {Name: "origin", Type: storage.Text}, {Name: "kind", Type: storage.Text},
	{Name: "content_md", Type: storage.Text}, {Name: "reply_to_id", Type: storage.Text}, {Name: "file_ids", Type: storage.Text},
	{Name: "mention_ids", Type: storage.Text}, {Name: "created_at", Type: storage.Bigint},
}}

// storeMessage writes a new message with what belongs to it, and message.created.
func (s *Service) storeMessage(tx storage.Tx, by authz.Caller, thread *PlacedThread, m *wire.Message, post posting) error {
	err := tx.Insert(messageTable, [][]any{{
		m.ID, m.ThreadID, m.ThreadSeq, m.Author.ID, m.Author.Kind, m.ClientMsgID, post.hash, m.Origin, m.Kind,
		m.ContentMD, optional(m.ReplyToID), encodeIDs(post.fileIDs), encodeIDs(m.MentionIDs), m.CreatedAt,
	}})
	if err != nil {
		return fmt.Errorf("insert message: %w", err)
	}
	if err := attach(tx, m.ID, post.fileIDs); err != nil {
		return err
	}
	if err := storeMentions(tx, m); err != nil {
		return err
	}
	return s.tellMessage(tx, by, eventlog.MessageCreated, thread, m)
}

// tellMessage emits an event of a message, which is without Me.
func (s *Service) tellMessage(tx storage.Tx, by authz.Caller, kind string, thread *PlacedThread, m *wire.Message) error {
	payload, truncated, err := s.messagePayload(wire.MessageEvent{Message: *m, Thread: thread.Summary()})
	if err != nil {
		return err
	}
	told := event(by, kind, thread.Scope(), m.ID, m.Version, payload)
	told.Truncated = truncated
	if kind == eventlog.MessageCreated {
		told.ClientMsgID = m.ClientMsgID
	}
	return s.log.Emit(tx, told)
}
