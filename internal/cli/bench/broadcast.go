package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/gobwas/ws"
)

// Broadcast is the baseline of fan-out: it upgrades connections by the bare WebSocket library and
// writes the same frame to all of them, in a loop, without queue, log or permission. It says its
// address first; "send N K" sends N frames, K in one write.
func Broadcast(ctx context.Context, connections, size int, in io.Reader, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // it accepts no more
	say(out, listener.Addr().String())
	receivers := make([]net.Conn, 0, connections)
	defer func() {
		for _, receiver := range receivers {
			_ = receiver.Close() // the measurement is over
		}
	}()
	for len(receivers) < connections {
		receiver, err := listener.Accept()
		if err != nil {
			return err
		}
		if _, err := ws.Upgrade(receiver); err != nil {
			return err
		}
		receivers = append(receivers, receiver)
	}
	return obey(receivers, size, in, out)
}

func obey(receivers []net.Conn, size int, in io.Reader, out io.Writer) error {
	frame := ws.MustCompileFrame(ws.NewTextFrame([]byte(`{"v":1,"t":"event","text":"` + strings.Repeat("x", size) + `"}`)))
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var frames, together int
		if _, err := fmt.Sscanf(lines.Text(), "send %d %d", &frames, &together); err != nil {
			say(out, "ok")
			continue
		}
		block := []byte(strings.Repeat(string(frame), together))
		for range frames / together {
			for _, receiver := range receivers {
				if _, err := receiver.Write(block); err != nil {
					return err
				}
			}
		}
		say(out, "ok")
	}
	return nil
}

// bareFanout measures the baseline's CPU seconds per million deliveries: rounds times frames, each
// round after the one before has arrived everywhere.
func (b *bench) bareFanout(ctx context.Context, rounds, frames, together, size int) (cpu float64, err error) {
	c, err := b.spawn(ctx, "broadcast", strconv.Itoa(audience), strconv.Itoa(size))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	v, err := connect(ctx, target{host: c.hello, path: "/", transport: byWebSocket}, devices(b.env, audience))
	if err != nil {
		return 0, err
	}
	defer v.close()
	if err := c.ask("ready"); err != nil {
		return 0, err
	}
	before := c.cpu()
	for range rounds {
		want := v.events.Load() + int64(frames*audience)
		if err := c.ask(fmt.Sprintf("send %d %d", frames, together)); err != nil {
			return 0, err
		}
		if err := until(ctx, "deliveries", patience, func() bool { return v.events.Load() >= want }); err != nil {
			return 0, err
		}
	}
	return (c.cpu() - before) / float64(rounds*frames*audience) * 1e6, nil
}
