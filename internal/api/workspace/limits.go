package workspace

import (
	"time"

	"github.com/cairnsync/cairn/internal/api/guard"
	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/identity/token"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// rateRefresh is rl.login for refreshes. They have a table of their own: of families that nobody has somebody
// can think of any number.
const rateRefresh authz.Rate = "refresh"

// limits are the rate classes of REST (WS-AZ-4). Nil limits nothing.
type limits map[authz.Rate]*guard.Limiter

func newLimits(e *env.Env, c config.Limits) limits {
	if !c.Enabled {
		return nil
	}
	return limits{
		authz.RateLogin: limiter(e, c.Login), rateRefresh: limiter(e, c.Login), authz.RateWrite: limiter(e, c.Write), authz.RateSearch: limiter(e, c.Search),
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

// login counts a call of auth/token. A sign-in is counted by where it comes from, because nothing
// proves yet who it is. A refresh is counted by its sign-in: many devices behind one address refresh often, each on its own.
func (l limits) login(in *wire.TokenRequest, address string) error {
	if in.GrantType == wire.GrantRefreshToken {
		if shown, wellFormed := token.ParseRefresh(in.RefreshToken); wellFormed {
			return l.take(rateRefresh, shown.Family)
		}
	}
	return l.take(authz.RateLogin, signin.Network(address))
}

func tooOften(wait time.Duration) error {
	return fault.New(code.RateLimited, "Too often; try again in %d s.", seconds(wait)).WithDetails(fault.Extra{RetryAfter: wait})
}
