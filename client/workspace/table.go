package workspace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// recordKey names a stored object.
type recordKey struct{ kind, id string }

// table holds the objects of one kind and notes which of them changed since they were stored.
type table[T any] struct {
	kind   string
	rows   map[string]T
	dirty  map[recordKey]struct{}
	parent func(T) string
	used   func(T) time.Time
}

// keeper is what a State does with every table.
type keeper interface {
	record(id string) (Record, error)
	restore(record Record) error
	clear()
}

func newTable[T any](s *State, kind string) *table[T] {
	t := &table[T]{kind: kind, rows: map[string]T{}, dirty: s.dirty}
	s.tables[kind] = t
	return t
}

func (t *table[T]) get(id string) (T, bool) {
	value, ok := t.rows[id]
	return value, ok
}

func (t *table[T]) has(id string) bool {
	_, ok := t.rows[id]
	return ok
}

func (t *table[T]) put(id string, value T) {
	t.rows[id] = value
	t.dirty[recordKey{t.kind, id}] = struct{}{}
}

func (t *table[T]) remove(id string) {
	if _, ok := t.rows[id]; ok {
		delete(t.rows, id)
		t.dirty[recordKey{t.kind, id}] = struct{}{}
	}
}

// removeWhere removes the objects that a condition holds for.
func (t *table[T]) removeWhere(gone func(id string, value T) bool) {
	for id, value := range t.rows {
		if gone(id, value) {
			t.remove(id)
		}
	}
}

func (t *table[T]) clear() {
	t.removeWhere(func(string, T) bool { return true })
}

// sorted answers the objects by id.
func (t *table[T]) sorted() []T {
	all := make([]T, 0, len(t.rows))
	for _, id := range slices.Sorted(maps.Keys(t.rows)) {
		all = append(all, t.rows[id])
	}
	return all
}

// record answers an object as it is stored, or its removal.
func (t *table[T]) record(id string) (Record, error) {
	value, ok := t.rows[id]
	if !ok {
		return Record{Kind: t.kind, ID: id}, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s %s: %w", t.kind, id, err)
	}
	stored := Record{Kind: t.kind, ID: id, Data: data}
	if t.parent != nil {
		stored.Parent = t.parent(value)
	}
	if t.used != nil {
		stored.UsedAt = t.used(value)
	}
	return stored, nil
}

func (t *table[T]) restore(stored Record) error {
	var value T
	if err := json.Unmarshal(stored.Data, &value); err != nil {
		return fmt.Errorf("decode %s %s: %w", t.kind, stored.ID, err)
	}
	t.rows[stored.ID] = value
	return nil
}

// orderBy sorts by what key answers.
func orderBy[T any, K cmp.Ordered](all []T, key func(T) K) []T {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return all
}
