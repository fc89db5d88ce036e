package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
)

// wasCut reports whether the server says that it cut a stream.
func (h *hall) wasCut() bool { return h.metric("cairn_streams_cut_total") > 0 }

// metric sums a metric of the server over its labels.
func (s *site) metric(name string) float64 {
	response, err := http.Get(s.hello + "/metrics") //nolint:noctx // our own server on loopback
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	sum := 0.0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, name) {
			sum += number(line[strings.LastIndexByte(line, ' ')+1:])
		}
	}
	return sum
}

// measureIdle is the memory of viewers that wait.
func measureIdle(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	n := 5000
	if b.Quick {
		n = 500
	}
	var figures []Figure
	for by, most := range map[transport]float64{byWebSocket: 10, bySSE: 16} {
		each, err := b.idle(ctx, by, n)
		if err != nil {
			return nil, err
		}
		f := Figure{
			Scenario: "idle", Engine: engine, Unit: "KiB resident per viewer", Value: each / 1024,
			Load: fmt.Sprintf("%s, %d viewers of one session, over the empty server", label(by), n),
		}
		figures = append(figures, f.goal(fmt.Sprintf("≤ %.0f", most), f.Value <= most))
	}
	if figures[0].Load > figures[1].Load { // maps have no order, reports do
		figures[0], figures[1] = figures[1], figures[0]
	}
	return figures, nil
}

func (b *bench) idle(ctx context.Context, by transport, n int) (each float64, err error) {
	s, err := b.open(ctx, sqlite)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, _, err := s.device()
	if err != nil {
		return 0, err
	}
	made, err := c.CreateSession(ctx, client.NewSession{})
	if err != nil {
		return 0, err
	}
	// The first viewers bring the program's own pages into memory; they are not a viewer's.
	const first = 100
	v, err := s.audience(ctx, by, made.ID, first)
	if err != nil {
		return 0, err
	}
	v.close()
	if err := until(ctx, "everybody to have left", patience, func() bool { return s.metric("cairn_streams{") == 0 }); err != nil {
		return 0, err
	}
	empty, err := s.resident()
	if err != nil {
		return 0, err
	}
	if v, err = s.audience(ctx, by, made.ID, n); err != nil {
		return 0, err
	}
	defer v.close()
	full, err := s.resident()
	return (full - empty) / float64(n), err
}

// audience connects n viewers and waits until they are all present.
func (s *site) audience(ctx context.Context, by transport, session string, n int) (*viewers, error) {
	v, err := connect(ctx, s.target(session, by, 0), devices(s.env, n))
	if err != nil {
		return nil, err
	}
	return v, s.quiet(ctx, session, n)
}

// quiet waits until everybody is present.
func (s *site) quiet(ctx context.Context, session string, n int) error {
	c, _, err := s.device()
	if err != nil {
		return err
	}
	present := func() bool {
		list, err := c.ListSessions(ctx, client.ListOptions{})
		return err == nil && len(list) > 0 && list[0].ID == session && list[0].PresenceCount >= n
	}
	return until(ctx, "presence", patience, present)
}

// measureReconnect is how long it takes until everybody who lost the connection is level again.
func measureReconnect(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	n, missed := 2000, 100
	if b.Quick {
		n = 200
	}
	s, e, err := b.stage(ctx, engine)
	if err != nil {
		return nil, err
	}
	ids := devices(b.env, n)
	took, cpu, err := b.reconnect(ctx, s, e, ids, missed)
	e.close()
	cut := s.metric("cairn_streams_cut_total")
	f := Figure{
		Scenario: "reconnect", Engine: engine, Unit: "ms until the last is level", Value: float64(took.Milliseconds()),
		CPU:  cpu / float64(n*missed) * 1e6,
		Load: fmt.Sprintf("%d viewers connect at once, %d events behind each (cut: %s)", n, missed, strconv.Itoa(int(cut))),
	}
	return []Figure{f.goal("≤ 1000 ms, no one cut", took <= time.Second && cut == 0)}, errors.Join(err, s.stop())
}

func (b *bench) reconnect(ctx context.Context, s *site, e *executor, ids []string, missed int) (time.Duration, float64, error) {
	if err := e.append(body("before", 20, payloadLen)); err != nil {
		return 0, 0, err
	}
	const before = 20
	v, err := connect(ctx, s.target(e.session, byWebSocket, before), ids) // they were there
	if err != nil {
		return 0, 0, err
	}
	if err := s.quiet(ctx, e.session, len(ids)); err != nil {
		return 0, 0, err
	}
	v.close()
	if err := e.append(body("missed", missed, payloadLen)); err != nil {
		return 0, 0, err
	}
	if err := until(ctx, "everybody to have left", patience, func() bool { return s.metric("cairn_streams{") == 0 }); err != nil {
		return 0, 0, err
	}
	started, cpu := b.env.Now(), s.cpu()
	v, err = connect(ctx, s.target(e.session, byWebSocket, before), ids)
	if err != nil {
		return 0, 0, err
	}
	defer v.close()
	level := func() bool { return v.events.Load() >= int64(len(ids)*missed) }
	err = until(ctx, "everybody to be level", patience, level)
	return b.env.Now().Sub(started), s.cpu() - cpu, err
}
