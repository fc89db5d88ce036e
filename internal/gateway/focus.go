package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// threadPlaces reads where threads are.
func (g *Gateway) threadPlaces(ctx context.Context, threads []string) (map[string]authz.Place, error) {
	places, err := storage.Read(ctx, g.DB, func(tx storage.Tx) (map[string]authz.Place, error) { return placesOf(tx, threads) })
	if err != nil {
		return nil, fmt.Errorf("find threads: %w", err)
	}
	return places, nil
}

// setFocus replaces the focus (ES-6.2). A thread the caller does not see is not found, and the focus before stays.
func (s *session) setFocus(focus wire.Focus) {
	ctx, cancel := context.WithTimeout(s.g.ctx, enterPatience)
	defer cancel()
	threads := slices.Concat(focus.ThreadIDs, focus.BackgroundThreadIDs)
	places, err := s.g.threadPlaces(ctx, threads)
	if err != nil {
		s.refuse(wire.OpFocus, focus.Ref, err)
		return
	}
	if !s.g.focusOn(s, focus, places, false) {
		s.refuse(wire.OpFocus, focus.Ref, fault.Missing("Thread"))
		return
	}
	focus.Ref = ""
	if err := s.g.rows.keepFocus(ctx, s, focus); err != nil && s.g.ctx.Err() == nil {
		s.g.Log.Error("gateway: cannot keep focus", "error", err) // it is in force all the same
	}
}

// restoreFocus takes up the focus of the gateway session that is resumed, as far as its threads are still seen.
func (s *session) restoreFocus(ctx context.Context, focus wire.Focus) {
	places, err := s.g.threadPlaces(ctx, slices.Concat(focus.ThreadIDs, focus.BackgroundThreadIDs))
	if err != nil {
		s.g.Log.Error("gateway: cannot restore focus", "error", err)
		return
	}
	s.g.focusOn(s, focus, places, true)
}

// focusOn replaces the focus of s and reports whether it did: unless partly is set, all threads have to be visible.
func (g *Gateway) focusOn(s *session, focus wire.Focus, places map[string]authz.Place, partly bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.over || s.p == nil {
		return true
	}
	now := g.now()
	seen := make(map[string]string)
	for _, id := range slices.Concat(focus.ThreadIDs, focus.BackgroundThreadIDs) {
		place, ok := places[id]
		if moved, known := g.moved(id); ok && known {
			place = moved
		}
		if ok {
			_, ok = s.p.permissions.May(action.ThreadRead, &authz.Resource{Place: place}, now)
		}
		switch {
		case ok:
			seen[id] = place.ChannelID
		case !partly:
			return false
		}
	}
	g.forgetFocus(s)
	unseen := func(id string) bool { _, ok := seen[id]; return !ok }
	if len(seen) > 0 {
		s.focus = seen
	}
	for _, id := range slices.DeleteFunc(slices.Clone(focus.ThreadIDs), unseen) { // background threads get no typing
		if g.focus[id] == nil {
			g.focus[id] = map[*session]struct{}{}
		}
		g.focus[id][s] = struct{}{}
	}
	return true
}

// forgetFocus ends the whole focus of s. The mutex is held.
func (g *Gateway) forgetFocus(s *session) {
	for id := range s.focus {
		g.unfocus(s, id)
	}
	s.focus = nil
}

func (g *Gateway) unfocus(s *session, id string) {
	delete(g.focus[id], s)
	if len(g.focus[id]) == 0 {
		delete(g.focus, id)
	}
}

// endFocus ends the focus on threads that s does not see any more (ES-8.3.2). The mutex is held.
func (g *Gateway) endFocus(s *session, now time.Time) {
	maps.DeleteFunc(s.focus, func(id, channel string) bool {
		place := g.places.of(channel, "")
		if s.p.permissions.Level(place, now) != wire.LevelNone {
			return false
		}
		g.unfocus(s, id)
		return true
	})
}
