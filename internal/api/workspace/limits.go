package workspace

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/wire/code"
)

// limits are the rate classes of REST (WS-AZ-4). Nil limits nothing.
type limits map[authz.Rate]*guard.Limiter

func newLimits(e *env.Env, c config.Limits) limits {
	if !c.Enabled {
		return nil
	}
	return limits{
		authz.RateLogin: limiter(e, c.Login), authz.RateWrite: limiter(e, c.Write), authz.RateSearch: limiter(e, c.Search),
	}
}

func limiter(e *env.Env, rate config.Rate) *guard.Limiter {
	return guard.NewLimiter(e, float64(rate.Count)/rate.Per.Seconds(), rate.Count)
}

// take answers rate_limited when who asked too often.
func (l limits) take(class authz.Rate, who string) error {
	of, limited := l[class]
	if !limited {
		return nil
	}
	if wait := of.Take(who); wait > 0 {
		return tooOften(wait)
	}
	return nil
}

func tooOften(wait time.Duration) error {
	return fault.New(code.RateLimited, "Too often; try again in %d s.", seconds(wait)).WithDetails(fault.Extra{RetryAfter: wait})
}

// address is where a request comes from, without the port. A proxy on this machine says for whom it asks, in
// the last place of X-Forwarded-For; from anybody else that header means nothing.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	peer := net.ParseIP(host)
	if peer == nil || !peer.IsLoopback() {
		return host
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	if client := net.ParseIP(strings.TrimSpace(hops[len(hops)-1])); client != nil {
		return client.String()
	}
	return host
}
