package signal

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// fanout delivers wakes to the subscribers of this process, in the order of subscription. Its list
// is replaced, never changed, so that delivery takes no lock and a subscriber may publish or cancel
// from inside a call. Subscribers are the long-lived parts of a server, a handful; what serves many
// connections subscribes once for all of them.
type fanout struct {
	mu          sync.Mutex // serialises changes of the list
	subscribers atomic.Pointer[[]*subscriber]
}

type subscriber struct{ on func(Wake) }

// Subscribe calls on for every wake-up until cancel is called. A call that runs already may end
// after cancel returned.
func (f *fanout) Subscribe(on func(Wake)) (cancel func()) {
	added := &subscriber{on}
	f.change(func(list []*subscriber) []*subscriber { return append(list, added) })
	return func() {
		f.change(func(list []*subscriber) []*subscriber {
			return slices.DeleteFunc(list, func(s *subscriber) bool { return s == added })
		})
	}
}

func (f *fanout) change(edit func([]*subscriber) []*subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*subscriber
	if current := f.subscribers.Load(); current != nil {
		list = slices.Clone(*current)
	}
	list = edit(list)
	f.subscribers.Store(&list)
}

func (f *fanout) deliver(wakes ...Wake) {
	list := f.subscribers.Load()
	if list == nil {
		return
	}
	for _, wake := range wakes {
		for _, s := range *list {
			s.on(wake)
		}
	}
}

// Local is a Bus within one process. Its wake-ups are delivered in line and none is lost.
type Local struct{ fanout }

// NewLocal makes a bus for a process that is alone with its database.
func NewLocal() *Local { return &Local{} }

// Publish calls every subscriber before it returns.
func (l *Local) Publish(wakes ...Wake) { l.deliver(wakes...) }

// PublishAway has nobody to tell.
func (l *Local) PublishAway(...Wake) {}

// Start has nothing to start.
func (l *Local) Start(context.Context) error { return nil }

// Stop has nothing to stop.
func (l *Local) Stop(context.Context) error { return nil }
