package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// outage is longer than any act: it ends when the line is repaired.
const outage = longest

// meanwhile is how many messages are written while devices are away.
const meanwhile = 40

// drop cuts connections while others talk and one writes on.
func drop(ctx context.Context, s *stage) error {
	away := []*device{s.tablet, s.chen.first(), s.phone}
	for _, d := range away {
		d.line.Cut(outage)
	}
	main := s.general.MainThreadID
	for i := range meanwhile {
		from := []*device{s.desktop, s.laptop, s.emil.first()}[i%3]
		if err := from.send(ctx, main, fmt.Sprintf("meanwhile %d", i+1)); err != nil {
			return err
		}
	}
	chen := s.chen.first()
	for i := range 3 {
		if err := chen.send(ctx, main, fmt.Sprintf("written on the train, %d", i+1)); err != nil {
			return err
		}
	}
	if err := s.level(ctx, s.laptop, s.desktop, s.emil.first(), s.dara.first()); err != nil {
		return err
	}
	if err := s.say("three devices", "are away; the others write %d messages, Chen three that wait in his outbox", meanwhile); err != nil {
		return err
	}
	for _, d := range away {
		d.line.Repair()
		d.account.Gateway().Wake()
	}
	if err := s.level(ctx, away...); err != nil {
		return err
	}
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	if err := inOrder(s.laptop, main, "written on the train, "); err != nil {
		return err
	}
	return s.say("they", "resume, catch up, and Chen's three arrive once and in order")
}

// inOrder checks that what was written with a beginning is there once each, in order, on a device.
func inOrder(d *device, thread, beginning string) error {
	var found []string
	for _, message := range d.account.State().Messages(thread) {
		if strings.HasPrefix(message.ContentMD, beginning) {
			found = append(found, message.ContentMD)
		}
	}
	if !slices.IsSorted(found) || len(slices.Compact(slices.Clone(found))) != 3 || len(found) != 3 {
		return fmt.Errorf("%s has %q", d.name, found)
	}
	return nil
}

// revoke takes access away while people talk, and gives it to somebody else.
func revoke(ctx context.Context, s *stage) error {
	main, dara := s.private.MainThreadID, s.dara.first()
	err := together([]*device{s.laptop, s.desktop, dara}, func(d *device) error { return s.whisper(ctx, d, main) })
	if err = errors.Join(err, s.level(ctx, s.devices()...)); err != nil {
		return err
	}
	refused := len(dara.account.Outbox().Entries())
	for _, entry := range dara.account.Outbox().Entries() {
		if err := dara.account.Outbox().Discard(ctx, entry.ID); err != nil {
			return fmt.Errorf("discard what was refused: %w", err)
		}
	}
	if _, sees := dara.account.State().Channel(s.private.ID); sees || len(dara.account.State().Messages(main)) > 0 {
		return fmt.Errorf("%s still has #leads", dara.name)
	}
	if err := s.say(dara.name, "is removed from #leads: its content is gone there, %d messages of hers are refused and kept as failed", refused); err != nil {
		return err
	}
	return s.admit(ctx)
}

// whisper writes into #leads; Ada removes Dara in the middle of it.
func (s *stage) whisper(ctx context.Context, d *device, main string) error {
	const before, all = 10, 30
	for i := range all {
		if d == s.laptop && i == before {
			if err := d.account.Client().RemoveMember(ctx, s.leads.ID, s.dara.id); err != nil {
				return fmt.Errorf("remove Dara from the leads: %w", err)
			}
		}
		if err := d.send(ctx, main, fmt.Sprintf("%s, secret %d", d.owner.called, i+1)); err != nil {
			return err
		}
	}
	return d.account.Outbox().Idle(ctx)
}

// admit gives Emil the channel that Dara lost: he sees it from now on.
func (s *stage) admit(ctx context.Context) error {
	emil := s.emil.first()
	if err := drop1(s.laptop.account.Client().PutMember(ctx, s.leads.ID, s.emil.id, wire.PutMember{})); err != nil {
		return fmt.Errorf("add Emil to the leads: %w", err)
	}
	if err := until(ctx, "#leads on Emil's desktop", func() bool {
		_, sees := emil.account.State().Channel(s.private.ID)
		return sees
	}); err != nil {
		return err
	}
	emil.account.OpenChannel(s.private.ID)
	emil.account.OpenThread(s.private.MainThreadID)
	failed := errors.Join(s.desktop.send(ctx, s.private.MainThreadID, "Welcome, Emil."), s.level(ctx, s.devices()...))
	return errors.Join(failed, s.say(emil.name, "is let in, and loads what was said before"))
}

const (
	flood      = 800    // messages at most
	floodChars = 15_000 // of each
	floodLanes = 8
)

// overwhelm lets a device read nothing while much is said, until the server cuts it.
func overwhelm(ctx context.Context, s *stage) error {
	emil, chen := s.emil.first(), s.chen.first()
	before := emil.note().lost
	emil.line.Freeze()
	sent, err := s.floodUntilCut(ctx, chen)
	emil.line.Thaw()
	if err != nil {
		return err
	}
	if err := s.say(chen.name, "writes %.1f MB into #uploads; Emil's desktop reads nothing", float64(sent*floodChars)/1e6); err != nil {
		return err
	}
	if err := until(ctx, "the end of the slow connection", func() bool { return emil.note().lost > before }); err != nil {
		return err
	}
	emil.account.Gateway().Wake()
	if err := s.level(ctx, s.devices()...); err != nil {
		return err
	}
	how := ""
	if emil.note().closes[code.CloseSlowConsumer] > 0 {
		how = " with 4014 (slow_consumer)"
	}
	return s.say(emil.name, "is cut%s, reads again, and catches up", how)
}

// floodUntilCut writes until the server has cut somebody, and answers how many messages that took.
func (s *stage) floodUntilCut(ctx context.Context, d *device) (int64, error) {
	var sent, cut atomic.Int64
	text := strings.Repeat("x", floodChars)
	lanes := make([]*device, floodLanes)
	for i := range lanes {
		lanes[i] = d
	}
	err := together(lanes, func(d *device) error {
		for cut.Load() == 0 {
			number := sent.Add(1)
			if number > flood {
				break
			}
			if err := drop1(d.account.Client().SendMessage(ctx, s.uploads.MainThreadID, wire.NewMessage{ContentMD: text})); err != nil {
				return fmt.Errorf("send much: %w", err)
			}
			if number%floodLanes != 0 {
				continue
			}
			now, err := s.cuts(ctx)
			if err != nil {
				return err
			}
			cut.Store(now)
		}
		return nil
	})
	if err == nil && cut.Load() == 0 {
		err = errors.New("the server cuts nobody who reads nothing")
	}
	return sent.Load(), err
}

// cuts answers how many connections the server has cut because their client fell behind.
func (s *stage) cuts(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.url+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	var sum int64
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), "} "); found && strings.HasPrefix(name, "cairn_") && strings.Contains(name, "_cut_total") {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read metric: %w", err)
			}
			sum += n
		}
	}
	return sum, nil
}
