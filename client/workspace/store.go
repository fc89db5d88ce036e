package workspace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Position is how far the log was processed: the highest number that was checked for this principal
// (ES-7.1), in one timeline (ES-7.5). The zero value is nowhere.
type Position struct {
	Seq   int64  `json:"seq"`
	Epoch string `json:"epoch"`
}

// Known reports whether there is something to catch up from.
func (p Position) Known() bool { return p.Epoch != "" }

// Record is one object of the local copy, as it is stored.
type Record struct {
	Kind   string
	ID     string
	Parent string    // the object it goes away with, or ""
	Data   []byte    // JSON; nil removes the record
	UsedAt time.Time // when the object was last wanted
}

// Store keeps what a client must not lose, and its copy of what the server knows. What a method has
// stored when it returns survives the end of the process and of the machine. It is safe for concurrent
// use. NewMemory is one for tests and programs that keep nothing; package localstore has one in an
// encrypted file.
type Store interface {
	TokenStore

	// LoadCopy answers the position and every record.
	LoadCopy(ctx context.Context) (Position, []Record, error)
	// Commit stores a position and the records that changed until there, both or neither.
	Commit(ctx context.Context, at Position, changed []Record) error
	// Discard removes position and records, and leaves outbox and tokens (ES-7.3).
	Discard(ctx context.Context) error

	// LoadEntries answers the outbox in the order of Entry.Place.
	LoadEntries(ctx context.Context) ([]Entry, error)
	// PutEntries stores entries, new and changed ones, and removes others, all or nothing.
	PutEntries(ctx context.Context, put []Entry, remove []string) error

	// Erase removes everything (ES-8.5). The store is empty afterwards and can be used again.
	Erase(ctx context.Context) error
	// Close lets go of it.
	Close() error
}

// Memory is a Store for the life of the process.
type Memory struct {
	turn chan struct{} // holds one: who locked the tokens

	mu      sync.Mutex // guards what follows
	tokens  *Tokens
	at      Position
	records map[[2]string]Record
	entries map[string]Entry
}

// NewMemory answers an empty one.
func NewMemory() *Memory {
	return &Memory{turn: make(chan struct{}, 1), records: map[[2]string]Record{}, entries: map[string]Entry{}}
}

// LoadTokens answers what was saved last.
func (m *Memory) LoadTokens(context.Context) (*Tokens, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tokens, nil
}

// SaveTokens keeps tokens.
func (m *Memory) SaveTokens(_ context.Context, tokens *Tokens) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens = tokens
	return nil
}

// LockTokens waits for its turn.
func (m *Memory) LockTokens(ctx context.Context) (func(), error) {
	select {
	case m.turn <- struct{}{}:
		return func() { <-m.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// LoadCopy answers position and records.
func (m *Memory) LoadCopy(context.Context) (Position, []Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at, slices.Collect(maps.Values(m.records)), nil
}

// Commit stores both.
func (m *Memory) Commit(_ context.Context, at Position, changed []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
	for _, record := range changed {
		key := [2]string{record.Kind, record.ID}
		if record.Data == nil {
			delete(m.records, key)
			continue
		}
		m.records[key] = record
	}
	return nil
}

// Discard removes both.
func (m *Memory) Discard(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.records = Position{}, map[[2]string]Record{}
	return nil
}

// LoadEntries answers the outbox.
func (m *Memory) LoadEntries(context.Context) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.entries), func(a, b Entry) int { return cmp.Compare(a.Place, b.Place) }), nil
}

// PutEntries changes the outbox.
func (m *Memory) PutEntries(_ context.Context, put []Entry, remove []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, entry := range put {
		m.entries[entry.ID] = entry
	}
	for _, id := range remove {
		delete(m.entries, id)
	}
	return nil
}

// Erase removes everything.
func (m *Memory) Erase(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens, m.at, m.records, m.entries = nil, Position{}, map[[2]string]Record{}, map[string]Entry{}
	return nil
}

// Close does nothing.
func (m *Memory) Close() error { return nil }
