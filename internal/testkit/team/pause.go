package team

import (
	"context"
	"strings"
	"sync"

	"github.com/cairnsync/cairn/internal/storage"
)

// Pausing is a database whose writers stop once, before a statement that begins with certain words. It is
// another node's: give it a connection of its own. Make it with PauseBefore.
type Pausing struct {
	storage.DB

	before string
	once   sync.Once
	// Reached is closed when a writer has stopped; it goes on when Resume is closed.
	Reached chan struct{}
	Resume  chan struct{}
}

// PauseBefore makes a Pausing.
func PauseBefore(db storage.DB, words string) *Pausing {
	return &Pausing{DB: db, before: words, Reached: make(chan struct{}), Resume: make(chan struct{})}
}

// Write is the database's, with the stop.
func (p *Pausing) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	return p.DB.Write(ctx, keys, func(tx storage.Tx) error { return fn(&pausingTx{tx, p}) }, ahead...) //nolint:wrapcheck // it is the same database
}

type pausingTx struct {
	storage.Tx

	pause *Pausing
}

func (tx *pausingTx) stop(query string) {
	if strings.HasPrefix(query, tx.pause.before) {
		tx.pause.once.Do(func() {
			close(tx.pause.Reached)
			<-tx.pause.Resume
		})
	}
}

// Exec is the transaction's, with the stop.
func (tx *pausingTx) Exec(query string, args ...any) error {
	tx.stop(query)
	return tx.Tx.Exec(query, args...) //nolint:wrapcheck // it is the same transaction
}
