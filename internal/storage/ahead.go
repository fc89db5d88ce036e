package storage

import (
	"context"
	"fmt"
	"reflect"
)

// prefetch is a query that a write said ahead, as the engine wants it.
type prefetch struct {
	stmt  statement
	args  []any
	claim string
}

// readAhead is a prefetch with its rows.
type readAhead struct {
	prefetch

	rows []Row
}

func prefetches(e engine, ahead []Prefetch) ([]prefetch, error) {
	made := make([]prefetch, len(ahead))
	for i, p := range ahead {
		stmt := e.text(p.Query)
		if stmt.writes {
			return nil, fmt.Errorf("read ahead: %w", errWrite)
		}
		args, err := bindable(p.Args)
		if err != nil {
			return nil, fmt.Errorf("read ahead: %w", err)
		}
		made[i] = prefetch{stmt, args, p.Claim}
	}
	return made, nil
}

func aheadOf(batch []*write) []prefetch {
	var all []prefetch
	for _, w := range batch {
		all = append(all, w.ahead...)
	}
	return all
}

// query hands over the rows like session.query.
func (r *readAhead) query(_ context.Context, _ statement, _ []any, each func(Row) error) error {
	for _, row := range r.rows {
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// takeAhead answers what was read ahead for a query, once: later the rows may be others.
func (tx *transaction) takeAhead(query string, args []any) *readAhead {
	if len(tx.ahead) == 0 {
		return nil
	}
	first := &tx.ahead[0]
	if tx.wrote || first.stmt.query != query || !reflect.DeepEqual(first.args, args) {
		tx.ahead = nil
		return nil
	}
	tx.ahead = tx.ahead[1:]
	return first
}

// staleness is what the earlier writes of a batch have changed since its prefetches were read.
type staleness struct {
	keys   map[Key]struct{}
	claims map[string]struct{}
	any    bool // a write changed nobody knows what
}

func (s *staleness) add(w *write) {
	if len(w.ahead) == 0 {
		s.any = true
		return
	}
	if s.keys == nil {
		s.keys, s.claims = make(map[Key]struct{}), make(map[string]struct{})
	}
	for _, p := range w.ahead {
		if p.claim != "" {
			s.claims[p.claim] = struct{}{}
		}
	}
	for _, key := range w.keys {
		if !key.Lock.Shared {
			s.keys[key] = struct{}{}
		}
	}
}

func (s *staleness) concerns(w *write) bool {
	if s.any {
		return true
	}
	for _, p := range w.ahead {
		if _, claimed := s.claims[p.claim]; claimed {
			return true
		}
	}
	for _, key := range w.keys {
		if _, changed := s.keys[key]; changed {
			return true
		}
	}
	return false
}
