package gateway

import "context"

// maxSendBytes bounds what is sent at once, well within the queue.
const maxSendBytes = queueBytes / 4

// sendPage sends the events of a page and the cursors between and behind them (ES-7.1): after every
// sync.cursor_advance_every numbers that were skipped, and at the end.
func (s *session) sendPage(events []*event, after, checked int64) error {
	every := int64(s.g.Limits.CursorAdvanceEvery)
	p := s.parcel()
	for _, ev := range events {
		for !s.quiet && ev.record.Seq-after > every {
			after += every
			p.add(cursorBlock(after), 0)
		}
		after = ev.record.Seq
		p.event(ev)
		if err := p.sendFull(s.g.ctx); err != nil {
			return err
		}
	}
	for !s.quiet && checked-after > every {
		after += every
		p.add(cursorBlock(after), 0)
	}
	if !s.quiet {
		p.add(cursorBlock(checked), 0)
	}
	return p.send(s.g.ctx)
}

// parcel is frames that go out together. Its events are turned into blocks when they go: until then content may be taken out
// of them.
type parcel struct {
	s      *session
	max    int // frames
	pieces []piece
	frames int
	bytes  int
}

// piece is an event or a block.
type piece struct {
	event *event
	block *block
}

func (s *session) parcel() *parcel {
	return &parcel{s: s, max: max(1, s.g.Limits.OutboundQueueMax/2-2)}
}

func (p *parcel) event(ev *event) {
	p.pieces = append(p.pieces, piece{event: ev})
	p.frames, p.bytes = p.frames+1, p.bytes+ev.bytes
}

// add puts a block behind the events so far.
func (p *parcel) add(b *block, bytes int) {
	p.pieces = append(p.pieces, piece{block: b})
	p.frames, p.bytes = p.frames+b.Len(), p.bytes+bytes
}

// settle makes blocks of everything.
func (p *parcel) settle() []*block {
	p.s.g.mu.Lock()
	defer p.s.g.mu.Unlock()
	var j joiner
	var events []*event
	blocks := make([]*block, 0, len(p.pieces))
	for _, one := range p.pieces {
		if one.event != nil {
			events = append(events, one.event)
			continue
		}
		blocks = append(append(blocks, j.join(events)...), one.block)
		events = events[:0]
	}
	return append(blocks, j.join(events)...)
}

// sendFull is send when it is time.
func (p *parcel) sendFull(ctx context.Context) error {
	if p.frames < p.max && p.bytes < maxSendBytes {
		return nil
	}
	return p.send(ctx)
}

func (p *parcel) send(ctx context.Context) error {
	if len(p.pieces) == 0 {
		return nil
	}
	if err := p.s.stream.Room(ctx); err != nil {
		return err
	}
	p.s.stream.SendMany(p.settle())
	p.pieces, p.frames, p.bytes = p.pieces[:0], 0, 0
	return nil
}
