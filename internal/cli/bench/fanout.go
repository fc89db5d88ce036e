package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	audience   = 1000 // viewers of one session
	fanoutSize = 512  // bytes of a payload
	patience   = 30 * time.Second
)

// hall is one session with an executor and an audience.
type hall struct {
	*site

	executor *executor
	viewers  *viewers
	sent     int
}

// gather opens a session for an audience of n; at changes how they connect.
func (b *bench) gather(ctx context.Context, n int, by transport, at func(*target), settings ...string) (*hall, error) {
	s, e, err := b.stage(ctx, sqlite, settings...)
	if err != nil {
		return nil, err
	}
	h := &hall{site: s, executor: e}
	where := s.target(e.session, by, 0)
	if at != nil {
		at(&where)
	}
	if h.viewers, err = connect(ctx, where, devices(b.env, n)); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	// The first event shows that everybody is live.
	return h, errors.Join(h.send(1, 8), h.arrived(ctx, n))
}

// stage opens a server and, on it, a session with its executor.
func (b *bench) stage(ctx context.Context, engine string, settings ...string) (*site, *executor, error) {
	s, err := b.open(ctx, engine, settings...)
	if err != nil {
		return nil, nil, err
	}
	e, err := s.execute(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, s.stop())
	}
	return s, e, nil
}

func (h *hall) close() error {
	h.executor.close()
	h.viewers.close()
	return h.stop()
}

// send appends n events at once.
func (h *hall) send(n, size int) error {
	err := h.executor.append(body(fmt.Sprint(h.sent), n, size))
	h.sent += n
	return err
}

// arrived waits until n viewers have everything that was sent.
func (h *hall) arrived(ctx context.Context, n int) error {
	want := int64(h.sent * n)
	return until(ctx, "deliveries", patience, func() bool { return h.viewers.events.Load() >= want })
}

// fanout measures rounds of frames events to the whole audience and answers CPU seconds per million
// deliveries and deliveries per second.
func (b *bench) fanout(ctx context.Context, by transport, rounds, frames, ahead int) (cpu, perSecond float64, err error) {
	h, err := b.gather(ctx, audience, by, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	before, started := h.cpu(), b.env.Now()
	for range rounds {
		if err := h.send(frames, fanoutSize); err != nil {
			return 0, 0, err
		}
		want := int64((h.sent - ahead) * audience)
		if err := until(ctx, "deliveries", patience, func() bool { return h.viewers.events.Load() >= want }); err != nil {
			return 0, 0, err
		}
	}
	if err := h.arrived(ctx, audience); err != nil {
		return 0, 0, err
	}
	deliveries := float64(rounds * frames * audience)
	if ended := h.viewers.ended.Load(); ended > 0 {
		err = fmt.Errorf("%d viewers were cut", ended)
	}
	return (h.cpu() - before) / deliveries * 1e6, deliveries / b.env.Now().Sub(started).Seconds(), err
}

func (b *bench) rounds(full int) int {
	if b.Quick {
		return max(full/10, 1)
	}
	return full
}

// measureLoadedFanout appends batches ahead of the audience, so that frames wait.
func measureLoadedFanout(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	const frames = 100
	rounds := b.rounds(40)
	base, err := b.bareFanout(ctx, rounds, frames/8*8, 8, fanoutSize)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for _, by := range []transport{byWebSocket, bySSE} {
		cpu, perSecond, err := b.fanout(ctx, by, rounds, frames, frames)
		if err != nil {
			return nil, err
		}
		f := Figure{
			Scenario: "fanout-loaded", Engine: engine, Unit: "CPU-s per million", Value: cpu, CPU: cpu,
			Load: fmt.Sprintf("%s, %d viewers, 512 bytes, batches of %d one ahead (%.0f k deliveries/s)", label(by), audience, frames, perSecond/1000),
		}.against("the library's bare loop, 8 frames in one write", base)
		figures = append(figures, f.goal("≤ 1.5", f.Ratio <= 1.5))
	}
	return figures, nil
}

// measureSingleFanout sends one event, waits for everybody, and sends the next.
func measureSingleFanout(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	rounds := b.rounds(500)
	base, err := b.bareFanout(ctx, rounds, 1, 1, fanoutSize)
	if err != nil {
		return nil, err
	}
	var figures []Figure
	for _, by := range []transport{byWebSocket, bySSE} {
		cpu, perSecond, err := b.fanout(ctx, by, rounds, 1, 0)
		if err != nil {
			return nil, err
		}
		f := Figure{
			Scenario: "fanout-single", Engine: engine, Unit: "CPU-s per million", Value: cpu, CPU: cpu,
			Load: fmt.Sprintf("%s, %d viewers, 512 bytes, one event at a time (%.0f k deliveries/s)", label(by), audience, perSecond/1000),
		}.against("the library's bare loop, one frame at a time", base)
		figures = append(figures, f.goal("≤ 1.3", f.Ratio <= 1.3))
	}
	return figures, nil
}

func label(by transport) string {
	if by == bySSE {
		return "SSE"
	}
	return "WebSocket"
}

// pace sends n events a second for a while and answers the delays of the viewers that read.
func (h *hall) pace(ctx context.Context, perSecond int, d time.Duration, size int) error {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for range int(d.Seconds() * float64(perSecond)) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		event := fmt.Sprintf(`{"events":[{"kind":"assistant","ts":%d,"payload":%s}]}`, h.env.Now().UnixMicro(), payload(size))
		h.sent++
		if err := h.executor.append([]byte(event)); err != nil {
			return err
		}
	}
	return nil
}

// percentile99 answers the delay that one delivery in a hundred exceeds. The viewers must have ended.
func (v *viewers) percentile99() time.Duration {
	var delays []time.Duration
	for _, one := range v.all {
		if len(one.delays) > 1 {
			delays = append(delays, one.delays[1:]...) // the first has no time of sending
		}
	}
	if len(delays) == 0 {
		return 0
	}
	slices.Sort(delays)
	return delays[len(delays)*99/100]
}

// delays measures the 99th percentile from append to screen over an audience, perhaps with one
// viewer that does not read.
func (b *bench) delays(ctx context.Context, by transport, stalled bool, settings ...string) (time.Duration, bool, error) {
	h, err := b.gather(ctx, audience, by, func(at *target) { at.timed = b.env }, settings...)
	if err != nil {
		return 0, false, err
	}
	var asleep *viewer
	if stalled {
		at := h.target(h.executor.session, by, int64(h.sent))
		at.receiveBuffer = 4 << 10
		if asleep, err = at.dial(ctx, h.env.RandomID()); err != nil {
			return 0, false, errors.Join(err, h.close())
		}
		defer func() { _ = asleep.conn.Close() }() // it was cut, or will be
	}
	size, span := fanoutSize, b.span()
	if len(settings) > 0 {
		size = slowSize
	}
	cut := false
	for spans := 0; err == nil && (spans == 0 || (stalled && !cut && spans < slowSpans)); spans++ {
		err = errors.Join(h.pace(ctx, 20, span, size), h.arrived(ctx, audience))
		cut = h.wasCut()
	}
	err = errors.Join(err, h.close())
	return h.viewers.percentile99(), cut, err
}

// measureLatency is the time from append to screen at 20 events per second.
func measureLatency(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	var figures []Figure
	for _, by := range []transport{byWebSocket, bySSE} {
		p99, _, err := b.delays(ctx, by, false)
		if err != nil {
			return nil, err
		}
		f := Figure{
			Scenario: "latency", Engine: engine, Unit: "ms (p99)", Value: float64(p99.Microseconds()) / 1000,
			Load: fmt.Sprintf("%s, 20 events/s to %d viewers, from append to screen", label(by), audience),
		}
		figures = append(figures, f.goal("≤ 20 ms", f.Value <= 20))
	}
	return figures, nil
}

// slowSize is the payload that fills the queue of a viewer that reads nothing, and what its socket
// takes before, within a measurement.
const slowSize = 8 << 10

// slowSpans is how many spans it may take until it is cut: the system takes some megabytes first.
const slowSpans = 6

// measureSlowViewer is what one viewer that stops reading costs the others.
func measureSlowViewer(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	settings := []string{"stream.queue_bytes=65536", "stream.queue_frames=64"}
	without, _, err := b.delays(ctx, byWebSocket, false, settings...)
	if err != nil {
		return nil, err
	}
	with, cut, err := b.delays(ctx, byWebSocket, true, settings...)
	f := Figure{
		Scenario: "slow-viewer", Engine: engine, Unit: "ms (p99)", Value: float64(with.Microseconds()) / 1000,
		Load: fmt.Sprintf("%d viewers and one that reads nothing, 20 events/s of %d KiB (it was cut: %t)", audience, slowSize>>10, cut),
	}.against("the same without it", float64(without.Microseconds())/1000)
	return []Figure{f.goal("≤ 1.2, and it is cut", f.Ratio <= 1.2 && cut)}, err
}
