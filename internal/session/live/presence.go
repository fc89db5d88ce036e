package live

import (
	"context"
	"time"

	"github.com/cairnsync/cairn/internal/conn"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// A crowd is announced at most this often; small rooms at once.
const (
	crowd        = 32
	crowdSpacing = tick
)

// announced is what the feed's viewers were told of presence, guarded by the feed's mu.
type announced struct {
	order   []string // of coming
	devices map[string]wire.Presence
	all     *conn.Block // the whole list; nil when it must be made again
	readAt  time.Time
}

// block is every announced device, for a stream that joins; nil when there is none.
func (a *announced) block() *conn.Block {
	if a.all == nil && len(a.order) > 0 {
		frames := make([]conn.Frame, 0, len(a.order))
		for _, device := range a.order {
			frames = append(frames, presenceFrame(a.devices[device], true))
		}
		a.all = conn.NewBlock(frames...)
	}
	return a.all
}

// change replaces the list and answers a frame for every device that came, left or changed.
func (a *announced) change(present []wire.Presence) (devices []string, frames []conn.Frame) {
	next := make(map[string]wire.Presence, len(present))
	order := make([]string, 0, len(present))
	for _, one := range present {
		next[one.DeviceID] = one
		order = append(order, one.DeviceID)
		if before, known := a.devices[one.DeviceID]; known && samePresence(before, one) {
			continue
		}
		devices = append(devices, one.DeviceID)
		frames = append(frames, presenceFrame(one, true))
	}
	for _, device := range a.order {
		if _, stays := next[device]; !stays {
			devices = append(devices, device)
			frames = append(frames, presenceFrame(a.devices[device], false))
		}
	}
	a.order, a.devices = order, next
	if len(frames) > 0 {
		a.all = nil
	}
	return devices, frames
}

// samePresence leaves out when a device was seen last: it moves all the time.
func samePresence(a, b wire.Presence) bool {
	a.LastSeen, b.LastSeen = 0, 0
	return a == b
}

func presenceFrame(one wire.Presence, online bool) conn.Frame {
	one.Online = &online
	return frame(wire.FramePresence, one)
}

// announce picks who is announced: everybody in a small room; in a crowd those who execute or drive,
// and the first to come.
func announce(present []wire.Presence, most int) []wire.Presence {
	if len(present) <= most {
		return present
	}
	picked := make([]wire.Presence, 0, most)
	for _, one := range present {
		if len(picked) < most || one.Executor || one.Driving {
			picked = append(picked, one)
		}
	}
	return picked
}

// refreshPresence reads who has the session open and tells the viewers what changed. A crowd that
// comes or goes together is told of in few steps. The caller holds mu.
func (f *feed) refreshPresence(ctx context.Context) {
	now := f.hub.Env.Now()
	if len(f.present.order) > crowd && now.Sub(f.present.readAt) < crowdSpacing {
		f.presenceDue.Store(true)
		return
	}
	f.present.readAt = now
	lease := f.state.Lease
	present, err := storage.Read(ctx, f.hub.DB, func(tx storage.Tx) ([]wire.Presence, error) {
		return session.Present(tx, f.id, lease)
	})
	if err != nil {
		f.presenceDue.Store(true)
		f.hub.failed("read presence", err)
		return
	}
	devices, frames := f.present.change(announce(present, f.hub.MaxAnnounced))
	f.tell(devices, frames)
}

// tellSingly is up to how many changes each may overtake its older one in a slow queue (SS-STR-7).
const tellSingly = 8

func (f *feed) tell(devices []string, frames []conn.Frame) {
	if len(frames) > tellSingly {
		block := conn.NewBlock(frames...)
		for _, stream := range f.live {
			stream.sink.Send(block)
		}
		return
	}
	for i, device := range devices {
		block := conn.NewBlock(frames[i])
		for _, stream := range f.live {
			stream.sink.SendLatest("presence:"+device, block)
		}
	}
}
