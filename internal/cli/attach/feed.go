package attach

import (
	"context"
	"errors"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
)

// Bounds of what is on its way from the stream to the screen.
const (
	feedRoom  = 256 // frames; a full feed stops reading, and the server cuts who falls behind (SS-STR-7)
	feedBatch = 200 // frames of one message
	feedGrace = 15 * time.Millisecond
)

// feed follows a session and hands what it brings to send, in order, in batches.
type feed struct {
	gen    int
	viewer *client.Viewer
	frames chan any
}

// run follows until ctx ends or the server says that there is no more.
func (f *feed) run(ctx context.Context, send func(any)) {
	ended := make(chan error, 1)
	go func() {
		defer close(f.frames)
		ended <- f.viewer.Run(ctx, func(frame client.Frame) error {
			var item any = frame
			if event, is := frame.(client.EventFrame); is {
				item = newEntry(event)
			}
			select {
			case f.frames <- item:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	for item := range f.frames {
		send(streamMsg{f.gen, f.gather(item)})
	}
	if err := <-ended; ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		send(streamEndMsg{f.gen, err})
	}
}

// gather answers an item with those that wait behind it, or come within a moment: one message draws the screen once.
func (f *feed) gather(first any) []any {
	items := []any{first}
	timer := time.NewTimer(feedGrace)
	defer timer.Stop()
	for len(items) < feedBatch {
		select {
		case item, open := <-f.frames:
			if !open {
				return items
			}
			items = append(items, item)
		case <-timer.C:
			return items
		}
	}
	return items
}

// point tells the server who looks and who drives.
func point(viewer *client.Viewer, p presenceEffect) {
	viewer.SetDriving(p.driving)
	viewer.SetAttention(p.attention)
}
