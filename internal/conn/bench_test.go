//go:build unix

package conn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
)

// The benchmarks measure the processor time and memory of this process only: the clients live in
// another one, which is this test binary started with crowdVariable.

const (
	viewers   = 1000
	frameSize = 512
)

// audience opens streams for a crowd.
func audience(b *testing.B, count int, path string, talk bool) []*Stream {
	b.Helper()
	st := newStand(b, Limits{}, &Observer{Sent: func(Kind, int, int) {}})
	streams := make([]*Stream, 0, count)
	var all sync.WaitGroup
	all.Go(func() {
		for len(streams) < count {
			s := <-st.streams
			s.Run(Handler{Message: func(text []byte) {
				var message map[string]any
				if json.Unmarshal(text, &message) == nil {
					s.Send(NewBlock(Frame{Name: "ack"}))
				}
			}})
			streams = append(streams, s)
		}
	})
	gather(b, st.address, count, path, talk)
	all.Wait()
	return streams
}

// bareAudience upgrades connections with gobwas/ws and nothing else.
func bareAudience(b *testing.B, count int) []net.Conn {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	connections := make([]net.Conn, 0, count)
	var all sync.WaitGroup
	all.Go(func() {
		for len(connections) < count {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := ws.Upgrade(c); err == nil {
				connections = append(connections, c)
			}
		}
	})
	gather(b, listener.Addr().String(), count, "/ws", false)
	all.Wait()
	b.Cleanup(func() {
		_ = listener.Close()
		for _, c := range connections {
			_ = c.Close()
		}
	})
	return connections
}

// processor is the processor time this process has used.
func processor(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkFanOut compares one event to 1000 WebSocket viewers with a bare loop that writes prepared
// gobwas frames to as many sockets. The ratio is of processor time, the median of paired segments.
func BenchmarkFanOut(b *testing.B) {
	streams := audience(b, viewers, "/ws", false)
	bare := bareAudience(b, viewers)
	frame := func() Frame {
		return Frame{Name: "event", ID: 1, Object: fmt.Appendf(nil, `{"seq":1,"p":%q}`, strings.Repeat("x", frameSize))}
	}
	eight := make([]Frame, 8)
	for i := range eight {
		eight[i] = frame()
	}
	cases := []struct {
		name   string
		frames []Frame
		send   func([]Frame)
	}{
		{"one", []Frame{frame()}, func(f []Frame) { sendAll(streams, f) }},
		{"eight-in-a-block", eight, func(f []Frame) { sendAll(streams, f) }},
		{"eight-waiting", eight, func(f []Frame) { sendWaiting(streams, f) }},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			prepared := bytes.Clone(NewBlock(c.frames...).bytes(formatWebSocket))
			write := func([]Frame) {
				for _, s := range bare {
					if _, err := s.Write(prepared); err != nil {
						b.Fatal(err)
					}
				}
			}
			compare(b, c.frames, write, c.send)
		})
	}
}

func sendAll(streams []*Stream, frames []Frame) {
	block := NewBlock(frames...)
	for _, s := range streams {
		s.Send(block)
	}
}

// sendWaiting sends each frame by itself to streams whose sockets are busy, then lets them go on.
func sendWaiting(streams []*Stream, frames []Frame) {
	var busy []*Stream
	for _, s := range streams {
		s.mu.Lock()
		if !s.writing {
			s.writing = true
			busy = append(busy, s)
		}
		s.mu.Unlock()
	}
	for _, frame := range frames {
		block := NewBlock(frame)
		for _, s := range streams {
			s.Send(block)
		}
	}
	var all sync.WaitGroup
	for _, s := range busy {
		s.keeper.goroutines.Add(1)
		all.Go(s.flush)
	}
	all.Wait()
}

// compare alternates segments of both ways at a pace that the clients keep up with.
func compare(b *testing.B, frames []Frame, bare, ours func([]Frame)) {
	const rounds = 40
	pace := time.NewTicker(25 * time.Millisecond)
	defer pace.Stop()
	segment := func(send func([]Frame)) time.Duration {
		before := processor(b)
		for range rounds {
			send(frames)
			<-pace.C
		}
		return processor(b) - before
	}
	var ratios []float64
	var spent, spentBare time.Duration
	segment(ours)
	for b.Loop() {
		base := segment(bare)
		used := segment(ours)
		spent, spentBare = spent+used, spentBare+base
		ratios = append(ratios, float64(used)/float64(base))
	}
	slices.Sort(ratios)
	deliveries := float64(rounds * viewers * len(frames) * len(ratios))
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(spent.Seconds()*1e6/deliveries, "cpu-s/million")
	b.ReportMetric(spentBare.Seconds()*1e6/deliveries, "bare-cpu-s/million")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdle measures what an idle connection keeps resident, and its goroutines.
func BenchmarkIdle(b *testing.B) {
	for _, c := range []struct {
		name, path string
		talk       bool
	}{{"websocket", "/ws", false}, {"websocket-that-spoke", "/ws", true}, {"sse", "/sse", false}} {
		b.Run(c.name, func(b *testing.B) {
			const count = 2000
			var memory, goroutines float64 // the worst of all turns
			for b.Loop() {
				before, running := resident(b), runtime.NumGoroutine()
				streams := audience(b, count, c.path, c.talk)
				memory = max(memory, float64(resident(b)-before)/count)
				goroutines = max(goroutines, float64(runtime.NumGoroutine()-running)/count)
				runtime.KeepAlive(streams)
			}
			b.ReportMetric(memory, "KiB/connection")
			b.ReportMetric(goroutines, "goroutines/connection")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// resident is the resident memory of this process in KiB, after giving back what is free.
func resident(b *testing.B) int {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	_, after, found := strings.Cut(string(status), "VmRSS:")
	require.True(b, found)
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	require.NoError(b, err)
	return kib
}
