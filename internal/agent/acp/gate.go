package acp

import (
	"context"
	"sync"
)

// The bounds of what an agent may ask at once. At them nothing more is read from it.
const (
	maxOpen      = 128
	maxOpenBytes = 64 << 20
)

// gate counts the requests of the agent that were handed on and whose answers are not written yet, and the bytes
// of those that are being served. Only one goroutine may wait at it.
type gate struct {
	changed chan struct{} // a hint that it is worth looking again

	mu    sync.Mutex // guards what follows
	open  int
	bytes int
}

func newGate() *gate { return &gate{changed: make(chan struct{}, 1)} }

// enter waits for room and takes it. One request is always admitted, however large.
func (g *gate) enter(ctx context.Context, size int) error {
	for !g.admit(size) {
		select {
		case <-g.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (g *gate) admit(size int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open >= maxOpen || g.bytes > 0 && g.bytes+size > maxOpenBytes {
		return false
	}
	g.open++
	g.bytes += size
	return true
}

// served gives the bytes of a request back.
func (g *gate) served(size int) { g.change(0, size) }

// answered gives the place of a request back.
func (g *gate) answered() { g.change(1, 0) }

func (g *gate) change(open, bytes int) {
	g.mu.Lock()
	g.open -= open
	g.bytes -= bytes
	g.mu.Unlock()
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// drain waits until every request is answered. Nobody may enter any more.
func (g *gate) drain() {
	for !g.empty() {
		<-g.changed
	}
}

func (g *gate) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open == 0
}
