package storage

import (
	"context"
	"fmt"
	"sync"
)

// readerPool holds the idle readers of one file. The one that was used last is used next, so that a
// quiet server reads with one connection and one page cache instead of taking turns among all.
type readerPool struct {
	slots chan struct{} // one for each reader that may be in use

	mu   sync.Mutex
	idle []*sqliteConn // guarded by mu
}

func newReaderPool(size int) *readerPool {
	return &readerPool{slots: make(chan struct{}, size)}
}

// take answers an idle reader, or nil when one may be opened; it waits while all are in use.
func (p *readerPool) take(ctx context.Context) (*sqliteConn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a reader: %w", ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil, nil //nolint:nilnil // none is open
	}
	conn := p.idle[last]
	p.idle = p.idle[:last]
	return conn, nil
}

// give returns what take answered, or a reader opened for it; nil when there is none any more.
func (p *readerPool) give(conn *sqliteConn) {
	if conn != nil {
		p.mu.Lock()
		p.idle = append(p.idle, conn)
		p.mu.Unlock()
	}
	<-p.slots
}

// close waits until no reader is in use and closes them all.
func (p *readerPool) close() {
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	for _, conn := range p.idle {
		conn.close()
	}
}
