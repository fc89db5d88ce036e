package gateway

import (
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
)

// principal is somebody with connections here. It is guarded by the gateway's mu.
type principal struct {
	id string
	// permissions follow the log; nil until they were read for the first connection.
	permissions *authz.Snapshot
	// epoch grows with everything that may change a decision of the principal's: other permissions, an end of one.
	epoch uint32
	// until is when the next of the permissions ends, in microseconds; 0 is never.
	until    int64
	mark     int64 // the last event this principal was asked about
	sessions []*session
	// wanted is the permission version that a snapshot must have seen.
	wanted int64
	reach  reach // what the index holds of permissions
	holds  int   // connections that are about to join
	gone   bool
}

// index finds who may possibly receive an event. Its lists may name too many, never too few: each receiver is asked.
// Where a principal has lost a place its entry stays until the list is cleaned. It is guarded by the gateway's mu.
type index struct {
	channels, spaces, homes map[string]*list
	wide                    *list
}

// list is principals that had something somewhere; stale of its entries have it no more.
type list struct {
	entries []entry
	stale   int
}

// entry is a principal in a list, with the decision whether it reads the place of the list. The decision stands while
// epoch is the principal's and places the gateway's, and is made anew then.
type entry struct {
	p             *principal
	epoch, places uint32
	reads         bool
}

func newIndex() index {
	return index{channels: map[string]*list{}, spaces: map[string]*list{}, homes: map[string]*list{}, wide: &list{}}
}

// reach is the places of a snapshot, as the index names them.
type reach struct {
	channels, spaces, homes []string
	wide                    bool
}

func reachOf(s *authz.Snapshot, now time.Time) reach {
	if s == nil || !s.Active() {
		return reach{}
	}
	return reach{
		channels: s.GrantedChannels(now), spaces: s.GrantedSpaces(now), homes: s.HomeSpaces(now), wide: s.SeesEverything(now),
	}
}

// move brings the entries of p from one reach to another.
func (x *index) move(p *principal, from, to reach) {
	moveIn(x.channels, p, from.channels, to.channels)
	moveIn(x.spaces, p, from.spaces, to.spaces)
	moveIn(x.homes, p, from.homes, to.homes)
	switch {
	case to.wide && !from.wide:
		x.wide.entries = append(x.wide.entries, entry{p: p})
	case from.wide && !to.wide:
		x.wide.leave(func(other *principal) bool { return !other.gone && other != p })
	}
}

func moveIn(lists map[string]*list, p *principal, from, to []string) {
	had := make(map[string]bool, len(from))
	for _, id := range from {
		had[id] = true
	}
	for _, id := range to {
		if had[id] {
			delete(had, id)
			continue
		}
		if lists[id] == nil {
			lists[id] = &list{}
		}
		lists[id].entries = append(lists[id].entries, entry{p: p})
	}
	for id := range had {
		l := lists[id]
		if l == nil {
			continue
		}
		l.leave(func(other *principal) bool { return !other.gone && other != p })
		if len(l.entries) == 0 {
			delete(lists, id)
		}
	}
}

// leave notes that an entry is stale, and cleans the list when half of it is.
func (l *list) leave(stays func(*principal) bool) {
	l.stale++
	if 2*l.stale <= len(l.entries) && len(l.entries) > 8 {
		return
	}
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return !stays(e.p) })
	l.stale = 0
}
