package outbound

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }

func TestWhatNewsMeanForARecipient(t *testing.T) {
	t.Parallel()
	going := fate{state: wire.PushWaiting}
	for name, c := range map[string]struct {
		recipient recipient
		kind      wire.PushType
		want      telling
	}{
		"nothing in the way":           {recipient{notify: wire.NotifyAll}, wire.PushTurnEnd, telling{fate: going, due: at(0)}},
		"asks only, an ask":            {recipient{notify: wire.NotifyAsks}, wire.PushAsk, telling{fate: going, due: at(0)}},
		"asks only, the end of a turn": {recipient{notify: wire.NotifyAsks}, wire.PushTurnEnd, telling{fate: skipped(wire.PushNotify)}},
		"nothing wanted":               {recipient{notify: wire.NotifyNone, attentive: true}, wire.PushAsk, telling{fate: skipped(wire.PushNotify)}},
		"attention":                    {recipient{notify: wire.NotifyAll, attentive: true}, wire.PushAsk, telling{fate: skipped(wire.PushAttention)}},
		"a pause":                      {recipient{notify: wire.NotifyAll, pauseEnds: at(7)}, wire.PushAsk, telling{fate: going, due: at(7)}},
		"a pause that is over":         {recipient{notify: wire.NotifyAll, pauseEnds: at(-1)}, wire.PushAsk, telling{fate: going, due: at(0)}},
		"the newer end of a turn": {
			recipient{notify: wire.NotifyAll, pauseEnds: at(7), waiting: []string{"a"}}, wire.PushTurnEnd,
			telling{fate: going, due: at(7), replaces: []string{"a"}},
		},
		"the newer ask": {
			recipient{notify: wire.NotifyAll, waiting: []string{"a", "b"}}, wire.PushAsk,
			telling{fate: going, due: at(0), replaces: []string{"a", "b"}},
		},
		"the end of a turn nobody wants closes its ask": {
			recipient{notify: wire.NotifyAsks, waiting: []string{"a"}}, wire.PushTurnEnd,
			telling{fate: skipped(wire.PushNotify), replaces: []string{"a"}},
		},
		"the end of a turn that is seen closes its ask": {
			recipient{notify: wire.NotifyAll, attentive: true, waiting: []string{"a"}}, wire.PushTurnEnd,
			telling{fate: skipped(wire.PushAttention), replaces: []string{"a"}},
		},
	} {
		require.Equal(t, c.want, c.recipient.decide(c.kind, at(0)), name)
	}
}

func TestWhetherAWakeIsSent(t *testing.T) {
	t.Parallel()
	news := parcel{Wake: Wake{Type: wire.PushTurnEnd}, attempts: 1, createdAt: at(-20), access: true, notify: wire.NotifyAll, moot: true}
	dispatch := parcel{Wake: Wake{Type: wire.PushDispatch}, attempts: 1, createdAt: at(-20)}
	ends := func(f fate) verdict { return verdict{end: &f} }
	for name, c := range map[string]struct {
		base   parcel
		change func(p *parcel)
		want   verdict
	}{
		"news":                        {news, func(*parcel) {}, verdict{}},
		"news without access":         {news, func(p *parcel) { p.access, p.notify, p.attentive = false, wire.NotifyNone, true }, ends(skipped(wire.PushNoAccess))},
		"news nobody wants":           {news, func(p *parcel) { p.notify, p.attentive = wire.NotifyAsks, true }, ends(skipped(wire.PushNotify))},
		"an ask is wanted":            {news, func(p *parcel) { p.Type, p.notify = wire.PushAsk, wire.NotifyAsks }, verdict{}},
		"news somebody sees":          {news, func(p *parcel) { p.attentive = true }, ends(skipped(wire.PushAttention))},
		"news too soon":               {news, func(p *parcel) { p.pauseEnds = at(3) }, verdict{until: at(3)}},
		"news after a pause":          {news, func(p *parcel) { p.pauseEnds = at(0) }, verdict{}},
		"news that are old":           {news, func(p *parcel) { p.createdAt = at(-3601) }, ends(fate{wire.PushFailed, wire.PushNetworkError})},
		"a dispatch":                  {dispatch, func(p *parcel) { p.attentive, p.pauseEnds = true, at(9) }, verdict{}},
		"a dispatch that is done":     {dispatch, func(p *parcel) { p.moot = true }, ends(skipped(""))},
		"a dispatch tried too often":  {dispatch, func(p *parcel) { p.attempts, p.lastReason = 9, "http_503" }, ends(fate{wire.PushFailed, "http_503"})},
		"a dispatch tried often":      {dispatch, func(p *parcel) { p.attempts = 8 }, verdict{}},
		"a dispatch that is too old":  {dispatch, func(p *parcel) { p.createdAt = at(-3601) }, ends(fate{wire.PushFailed, wire.PushNetworkError})},
		"a dispatch done after a try": {dispatch, func(p *parcel) { p.moot, p.lastReason = true, "http_503" }, ends(skipped("http_503"))},
	} {
		p := c.base
		c.change(&p)
		require.Equal(t, c.want, p.judge(at(0)), name)
	}
}

// Whatever comes in whatever order: the newest is the only one that waits.
func TestOneOfTheNewsWaits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := recipient{notify: wire.NotifyAll, pauseEnds: at(10)}
		for i, kind := range rapid.SliceOfN(rapid.SampledFrom([]wire.PushType{wire.PushAsk, wire.PushTurnEnd}), 1, 20).Draw(t, "kinds") {
			next := r.decide(kind, at(0))
			require.Equal(t, wire.PushWaiting, next.state)
			require.Equal(t, r.waiting, next.replaces)
			r.waiting = []string{string(rune('a' + i))}
		}
	})
}
