package sessions

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// origins is the CORS allow-list; empty allows the server's own origin only (SS-HTTP-8).
type origins struct {
	list []string
	any  bool
}

func newOrigins(list []string) origins {
	return origins{list: list, any: slices.Contains(list, "*")}
}

// allowed reports whether a page of the request's origin may use the surface. Requests without an
// origin come from no page.
func (o origins) allowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || o.any || slices.Contains(o.list, origin) {
		return true
	}
	parsed, err := url.Parse(origin)
	return err == nil && strings.EqualFold(parsed.Host, r.Host)
}

// corsHeaders are what a page may send and read.
var corsHeaders = strings.Join([]string{
	"Authorization", "Content-Type", "Last-Event-ID", wire.HeaderDevice, wire.HeaderPlatform, wire.HeaderDeviceName,
	wire.HeaderPushToken, wire.HeaderShareToken, wire.HeaderRequestID,
}, ", ")

// answer sets the CORS headers and reports whether the request was a preflight, which it answers.
func (o origins) answer(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if origin == "" {
		return false
	}
	w.Header().Add("Vary", "Origin")
	if o.any || slices.Contains(o.list, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", wire.HeaderTrace+", Retry-After")
	}
	if !preflight {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", corsHeaders)
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// maxBuckets bounds the keys whose rate is remembered; past it the fullest are forgotten, which
// forgives them nothing.
const maxBuckets = 100_000

// limiter is a token bucket per key (SS-HTTP-8). A rate of 0 limits nothing.
type limiter struct {
	env   *env.Env
	rate  float64 // tokens per second
	burst float64

	mu      sync.Mutex
	buckets map[string]bucket // guarded by mu
}

type bucket struct {
	tokens float64
	at     time.Time
}

// retryAfter is the detail of a refusal for its rate.
type retryAfter struct {
	Seconds int `json:"retry_after_seconds"`
}

func newLimiter(e *env.Env, rate float64, burst int) *limiter {
	return &limiter{env: e, rate: rate, burst: max(float64(burst), 1), buckets: map[string]bucket{}}
}

// take spends one token of a key, or refuses and says when the next one is there.
func (l *limiter) take(key string) error {
	if l.rate <= 0 {
		return nil
	}
	now := l.env.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	b, known := l.buckets[key]
	if !known {
		l.forgetFull(now)
		b = bucket{tokens: l.burst, at: now}
	}
	b = bucket{tokens: l.filled(b, now), at: now}
	if b.tokens < 1 {
		l.buckets[key] = b
		seconds := int((1-b.tokens)/l.rate) + 1
		return fault.New(code.RateLimitExceeded, "Too many requests with this key; try again in %d s.", seconds).
			WithDetails(retryAfter{seconds})
	}
	b.tokens--
	l.buckets[key] = b
	return nil
}

func (l *limiter) filled(b bucket, now time.Time) float64 {
	return min(l.burst, b.tokens+max(now.Sub(b.at).Seconds(), 0)*l.rate)
}

// forgetFull makes room for a new key: a full bucket is the same as none.
func (l *limiter) forgetFull(now time.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for key, b := range l.buckets {
		if l.filled(b, now) >= l.burst {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= maxBuckets { // nobody is idle; begin anew rather than grow
		clear(l.buckets)
	}
}
