package workspace_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	benchWriters = 64
	benchThreads = 1000
)

// BenchmarkCreateMessage writes messages of 200 bytes: 64 writers over 1 000 threads, durable commits. The
// baseline is the same SQL as one transaction for each message, the pattern of ES-3.2 as it is written.
func BenchmarkCreateMessage(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		benchmarkMessages(b, testkit.Open(b, storage.Options{URL: testkit.NewURL(b, testkit.SQLite)}))
	})
	b.Run("postgres", func(b *testing.B) {
		server, err := testkit.StartPostgres("", testkit.ServerOptions{Fsync: true})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, server.Stop()) })
		benchmarkMessages(b, testkit.Open(b, storage.Options{URL: server.URL("")}))
	})
}

func benchmarkMessages(b *testing.B, db storage.DB) {
	stage := newBenchStage(b, db)
	b.Run("together", func(b *testing.B) { stage.run(b, stage.create) })
	b.Run("one by one", func(b *testing.B) { stage.run(b, stage.alone) })
}

type benchStage struct {
	*world

	threads []string
	writers []authz.Caller
	next    atomic.Int64
	turn    chan struct{} // of the baseline on SQLite, where there is one writer
}

func newBenchStage(b *testing.B, db storage.DB) *benchStage {
	b.Helper()
	s := &benchStage{world: newWorld(b, db), turn: make(chan struct{}, 1)}
	channel := s.text()
	for i := range benchWriters {
		s.writers = append(s.writers, s.member(fmt.Sprintf("writer-%d", i), onSpace(channel.SpaceID), wire.LevelWrite))
	}
	require.NoError(b, db.Write(b.Context(), nil, func(tx storage.Tx) error {
		for range benchThreads {
			id := s.env.NewID()
			s.threads = append(s.threads, id)
			err := tx.Exec(`INSERT INTO threads (id, channel_id, kind, title, state, last_activity_at, created_at) VALUES ($1, $2, 'thread', 't', 'open', 1, 1)`,
				id, channel.ID)
			if err != nil {
				return err
			}
		}
		return nil
	}))
	return s
}

func (s *benchStage) run(b *testing.B, write func(ctx context.Context, by authz.Caller, threadID string) error) {
	b.SetParallelism(benchWriters / 2) // goroutines per CPU; the machine has 2
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		me := s.writers[int(s.next.Add(1))%len(s.writers)]
		for pb.Next() {
			if err := write(b.Context(), me, s.threads[int(s.next.Add(7919))%len(s.threads)]); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

var benchText = strings.Repeat("word ", 40)

func (s *benchStage) create(ctx context.Context, by authz.Caller, threadID string) error {
	_, _, err := s.CreateMessage(ctx, by, threadID, s.message(benchText))
	return err
}

// alone is a lock that keeps a write out of every batch.
var alone = &storage.Lock{Rank: 1, Alone: true, Query: `SELECT id FROM instance WHERE id = ANY($1)`}

// alone writes a message as ES-3.2 draws it: one transaction with its own counter step and its own flush.
func (s *benchStage) alone(ctx context.Context, by authz.Caller, threadID string) error {
	keys := []storage.Key{{Lock: alone, ID: s.env.NewID()}}
	return s.db.Write(ctx, keys, func(tx storage.Tx) error { return s.asWritten(tx, by, threadID) })
}

func (s *benchStage) asWritten(tx storage.Tx, by authz.Caller, threadID string) error {
	clientMsgID := s.env.NewID()
	var earlier string
	if _, err := tx.Get(`SELECT id FROM messages WHERE author_id = $1 AND client_msg_id = $2`, []any{by.Principal, clientMsgID}, &earlier); err != nil {
		return err
	}
	if _, _, err := authz.Load(tx, by.Principal); err != nil {
		return err
	}
	var channelID string
	var seq, count, version, last, permissions int64
	_, err := tx.Get(`UPDATE threads SET last_message_seq = last_message_seq + 1, last_activity_at = $2, message_count = message_count + 1, version = version + 1
		WHERE id = $1 RETURNING channel_id, last_message_seq, message_count, version`, []any{threadID, tx.Now()}, &channelID, &seq, &count, &version)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(threadID + benchText))
	m := wire.Message{
		ID: s.env.NewID(), ThreadID: threadID, ChannelID: channelID, ThreadSeq: seq, ClientMsgID: clientMsgID, ContentMD: benchText, CreatedAt: tx.Now(),
	}
	err = tx.Exec(`INSERT INTO messages (id, thread_id, thread_seq, author_id, author_kind, client_msg_id, client_payload_sha256, origin, kind, content_md, created_at)
		VALUES ($1, $2, $3, $4, 'user', $5, $6, 'human', 'text', $7, $8)`,
		m.ID, threadID, seq, by.Principal, clientMsgID, hex.EncodeToString(sum[:]), benchText, tx.Now())
	if err != nil {
		return err
	}
	payload, err := json.Marshal(wire.MessageEvent{Message: m, Thread: wire.ThreadSummary{ID: threadID, Version: version, MessageCount: count}})
	if err != nil {
		return err
	}
	_, err = tx.Get(`UPDATE sequence_counters SET value = value + 1 WHERE name = 'event_seq' RETURNING value`, nil, &last)
	if err != nil {
		return err
	}
	if _, err := tx.Get(`SELECT value FROM sequence_counters WHERE name = 'permission_version'`, nil, &permissions); err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO event_log (seq, id, type, schema_version, occurred_at, actor_id, actor_kind, channel_id, thread_id, resource_kind, resource_id,
			resource_version, payload, redacted, truncated, client_msg_id, permission_version)
		VALUES ($1, $2, 'message.created', 1, $3, $4, 'user', $5, $6, 'message', $7, 1, $8, FALSE, FALSE, $9, $10)`,
		last, s.env.NewID(), tx.Now(), by.Principal, channelID, threadID, m.ID, payload, clientMsgID, permissions)
}
