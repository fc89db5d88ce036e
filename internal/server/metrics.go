package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/outbound"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// metrics are what the server counts. Labels are routes, kinds and codes: never an id, a key or
// anything a client chose.
type metrics struct {
	registry *prometheus.Registry

	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	streams     *prometheus.GaugeVec
	closed      *prometheus.CounterVec
	cuts        *prometheus.CounterVec
	frames      *prometheus.CounterVec
	bytes       *prometheus.CounterVec
	writes      *prometheus.CounterVec
	batchSize   *prometheus.HistogramVec
	laneWait    *prometheus.HistogramVec
	commit      *prometheus.HistogramVec
	replayPages *prometheus.CounterVec
	replayed    *prometheus.CounterVec
	pushes      *prometheus.CounterVec
}

// seconds are buckets from a quarter of a millisecond to eight seconds.
var seconds = prometheus.ExponentialBuckets(0.00025, 2, 16)

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cairn", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		options := prometheus.HistogramOpts{Namespace: "cairn", Name: name, Help: help, Buckets: buckets}
		return prometheus.NewHistogramVec(options, labels)
	}
	m := &metrics{
		registry:    prometheus.NewRegistry(),
		requests:    counter("requests_total", "Answered HTTP requests.", "route", "status"),
		duration:    histogram("request_seconds", "Time from the head of a request to its answer.", seconds, "route"),
		streams:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "cairn", Name: "streams", Help: "Open streams."}, []string{"kind"}),
		closed:      counter("streams_closed_total", "Ended streams by close code.", "kind", "code"),
		cuts:        counter("streams_cut_total", "Streams cut because their client fell behind.", "kind"),
		frames:      counter("stream_frames_total", "Frames written to streams.", "kind"),
		bytes:       counter("stream_bytes_total", "Bytes written to streams.", "kind"),
		writes:      counter("stream_writes_total", "System calls that wrote to streams.", "kind"),
		batchSize:   histogram("commit_batch_size", "Writes committed together.", prometheus.ExponentialBuckets(1, 2, 7)),
		laneWait:    histogram("lane_wait_seconds", "How long the first write of a batch waited for its lane.", seconds),
		commit:      histogram("commit_seconds", "Time of a batch from its begin to its commit.", seconds),
		pushes:      counter("pushes_total", "Attempts to wake a device by push.", "result"),
		replayPages: counter("replay_pages_total", "Pages of the log sent to streams that caught up."),
		replayed:    counter("replay_events_total", "Events in those pages."),
	}
	m.registry.MustRegister(m.requests, m.duration, m.streams, m.closed, m.cuts, m.frames, m.bytes, m.writes,
		m.batchSize, m.laneWait, m.commit, m.replayPages, m.replayed, m.pushes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// request counts an answer, and writes it to the log at debug level.
func (m *metrics) request(log *slog.Logger) func(route, trace string, status int, took time.Duration) {
	return func(route, trace string, status int, took time.Duration) {
		m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
		m.duration.WithLabelValues(route).Observe(took.Seconds())
		log.Debug("request", "trace", trace, "route", route, "status", status, "took", took)
	}
}

func (m *metrics) storage() *storage.Observer {
	batchSize, laneWait, commit := m.batchSize.WithLabelValues(), m.laneWait.WithLabelValues(), m.commit.WithLabelValues()
	return &storage.Observer{BatchCommitted: func(size int, waited, took time.Duration) {
		batchSize.Observe(float64(size))
		laneWait.Observe(waited.Seconds())
		commit.Observe(took.Seconds())
	}}
}

func (m *metrics) conn(log *slog.Logger) *conn.Observer {
	type counters struct{ frames, bytes, writes prometheus.Counter }
	sent := map[conn.Kind]counters{}
	for _, kind := range []conn.Kind{conn.WebSocket, conn.SSE} {
		sent[kind] = counters{
			m.frames.WithLabelValues(string(kind)), m.bytes.WithLabelValues(string(kind)), m.writes.WithLabelValues(string(kind)),
		}
	}
	return &conn.Observer{
		StreamOpened: func(kind conn.Kind) { m.streams.WithLabelValues(string(kind)).Inc() },
		StreamClosed: func(kind conn.Kind, c code.Close) {
			m.streams.WithLabelValues(string(kind)).Dec()
			m.closed.WithLabelValues(string(kind), strconv.Itoa(int(c))).Inc()
		},
		Cut: func(kind conn.Kind) { m.cuts.WithLabelValues(string(kind)).Inc() },
		Sent: func(kind conn.Kind, frames, bytes int) {
			count := sent[kind]
			count.frames.Add(float64(frames))
			count.bytes.Add(float64(bytes))
			count.writes.Inc()
		},
		Panicked: func(value any, stack []byte) {
			log.Error("message handler panicked", "panic", value, "stack", string(stack))
		},
	}
}

// watch shows what waits in the queues of all streams of a kind; prefix tells the kinds apart.
func (m *metrics) watch(prefix string, stats func() conn.Stats) {
	gauge := func(name, help string, value func(conn.Stats) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "cairn", Name: prefix + name, Help: help},
			func() float64 { return float64(value(stats())) })
	}
	m.registry.MustRegister(
		gauge("stream_queue_frames", "Frames waiting for clients.", func(s conn.Stats) int64 { return s.QueuedFrames }),
		gauge("stream_queue_bytes", "Bytes waiting for clients.", func(s conn.Stats) int64 { return s.QueuedBytes }),
		gauge("stream_inbound_bytes", "Bytes of unfinished messages from clients.", func(s conn.Stats) int64 { return s.InboundBytes }),
	)
}

func (m *metrics) pageSent(events int) {
	m.replayPages.WithLabelValues().Inc()
	m.replayed.WithLabelValues().Add(float64(events))
}

// pusher counts what becomes of pushes; there are none without fcm.
func (m *metrics) pusher(fcm *outbound.FCM) outbound.Pusher {
	if fcm == nil {
		return nil
	}
	return countingPusher{fcm, m}
}

type countingPusher struct {
	next    outbound.Pusher
	metrics *metrics
}

func (p countingPusher) Push(ctx context.Context, token string, data map[string]string) outbound.Result {
	result := p.next.Push(ctx, token, data)
	label := string(result.Reason)
	if result.Pushed {
		label = "pushed"
	}
	p.metrics.pushes.WithLabelValues(label).Inc()
	return result
}
