package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// errBusy is why a keeper opens no stream: it stops, or has MaxStreams.
var errBusy = errors.New("no more streams are taken")

// Keeper opens streams and owns their goroutines. It is a service.Service: streams may be opened
// before Start, but are pinged and aged only after it.
type Keeper struct {
	limits  Limits
	env     *env.Env
	observe *Observer

	goroutines   sync.WaitGroup // one for each stream, one for each flush
	queuedFrames atomic.Int64
	queuedBytes  atomic.Int64
	inbound      atomic.Int64

	mu       sync.Mutex // guards everything below; taken before a stream's
	streams  map[*Stream]struct{}
	stopping bool
	cancel   context.CancelFunc
	ticked   chan struct{} // closed when the ticker's goroutine has ended
}

// NewKeeper makes a Keeper; observe may be nil.
func NewKeeper(limits Limits, e *env.Env, observe *Observer) *Keeper {
	return &Keeper{
		limits:  limits.withDefaults(),
		env:     e,
		observe: observe,
		streams: make(map[*Stream]struct{}),
	}
}

// Stats is the state of a keeper's streams at one moment, for gauges.
type Stats struct {
	Streams      int
	QueuedFrames int64 // waiting in all outbound queues
	QueuedBytes  int64
	InboundBytes int64 // of unfinished inbound messages
}

// Stats answers the present state.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	streams := len(k.streams)
	k.mu.Unlock()
	return Stats{streams, k.queuedFrames.Load(), k.queuedBytes.Load(), k.inbound.Load()}
}

// Start begins to look after pings, ages and deadlines.
func (k *Keeper) Start(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	k.mu.Lock()
	k.cancel, k.ticked = cancel, make(chan struct{})
	k.mu.Unlock()
	go k.watch(ctx)
	return nil
}

// Stop takes no more streams, ends each cleanly (WebSocket Codes.Stop, SSE the end of its body; SS-STR-8)
// and waits for all their goroutines, handlers included. When ctx ends first the connections are cut.
func (k *Keeper) Stop(ctx context.Context) error {
	k.mu.Lock()
	k.stopping = true
	k.mu.Unlock()
	for _, s := range k.snapshot(nil) {
		s.Close(k.limits.Codes.Stop, "The server stops.")
	}
	ended := make(chan struct{})
	go func() {
		k.goroutines.Wait()
		close(ended)
	}()
	var failure error
	select {
	case <-ended:
	case <-ctx.Done():
		open := k.snapshot(nil)
		for _, s := range open {
			s.end(k.limits.Codes.Stop)
		}
		failure = fmt.Errorf("end %d streams: %w", len(open), ctx.Err())
	}
	k.stopTicker()
	return failure
}

func (k *Keeper) stopTicker() {
	k.mu.Lock()
	cancel, ticked := k.cancel, k.ticked
	k.mu.Unlock()
	if cancel != nil {
		cancel()
		<-ticked
	}
}

// open takes a connection as a new stream.
func (k *Keeper) open(c net.Conn, kind Kind, f format, early []byte) (*Stream, error) {
	now := k.env.Now()
	s := &Stream{
		keeper: k, kind: kind, format: f, conn: c, raw: rawConn(c), early: early,
		done:   make(chan struct{}),
		clocks: clocks{opened: now, quiet: now, progress: now},
	}
	s.try.call = s.try.write
	if kind == WebSocket {
		s.input = &inbound{max: k.limits.MaxMessage}
	}
	k.mu.Lock()
	if k.busy() {
		k.mu.Unlock()
		return nil, errBusy
	}
	k.streams[s] = struct{}{}
	k.goroutines.Add(1)
	k.mu.Unlock()
	k.observe.opened(kind)
	return s, nil
}

func (k *Keeper) busy() bool { return k.stopping || len(k.streams) >= k.limits.MaxStreams }

// forget is the end of a stream's last goroutine.
func (k *Keeper) forget(s *Stream) {
	k.mu.Lock()
	delete(k.streams, s)
	k.mu.Unlock()
	k.goroutines.Done()
}

func (k *Keeper) snapshot(into []*Stream) []*Stream {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s := range k.streams {
		into = append(into, s)
	}
	return into
}

func (k *Keeper) watch(ctx context.Context) {
	defer close(k.ticked)
	ticker := time.NewTicker(k.limits.resolution())
	defer ticker.Stop()
	var streams []*Stream
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			streams = k.snapshot(streams[:0])
			k.tick(streams)
			clear(streams) // ended streams are not kept alive
		}
	}
}

// tick looks at each stream once.
func (k *Keeper) tick(streams []*Stream) {
	now := k.env.Now()
	for _, s := range streams {
		s.tick(now)
	}
}
