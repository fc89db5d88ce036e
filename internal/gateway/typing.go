package gateway

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/authz/action"
	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/gateway/protocol"
	"github.com/cairnsync/cairn/internal/signal"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// maxTypings bounds the typing that waits to be said; past it, it is not said: it is pure acceleration (ES-2.1).
const maxTypings = 1024

// typing is somebody who types somewhere.
type typing struct{ thread, principal string }

// typing serves typing.start (ES-12.1): it needs write. Only ids travel to the other nodes (ES-12.3).
func (s *session) typing(effect protocol.Type) {
	g := s.g
	ctx, cancel := context.WithTimeout(g.ctx, enterPatience)
	defer cancel()
	places, err := g.threadPlaces(ctx, []string{effect.ThreadID})
	if err == nil {
		err = g.mayType(s, places[effect.ThreadID])
	}
	if err != nil {
		s.step(protocol.TypingRefused{})
		s.refuse(wire.OpTypingStart, effect.Ref, err)
		return
	}
	g.Bus.Publish(signal.Wake{Topic: signal.Typing, ID: effect.ThreadID + "-" + s.caller.Principal})
}

// mayType authorises typing on a place; no place is a thread that does not exist.
func (g *Gateway) mayType(s *session, place authz.Place) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.p == nil || s.over {
		return nil // it will not be sent an answer either
	}
	resource := authz.Resource{What: "Thread", Place: place}
	if place.ChannelID == "" {
		return fault.Missing("Thread")
	}
	return authz.Authorize(s.p.permissions, s.caller.Caller, action.TypingStart, resource, g.now())
}

// heardTyping hands a wake-up to whoever says it, if anybody here has the thread in focus.
func (g *Gateway) heardTyping(id string) {
	const length = 36
	if len(id) != 2*length+1 {
		return
	}
	thread, known := env.ParseID(id[:length])
	principal, also := env.ParseID(id[length+1:])
	g.mu.Lock()
	_, focused := g.focus[thread]
	g.mu.Unlock()
	if !known || !also || !focused || !strings.HasPrefix(id[length:], "-") {
		return
	}
	select {
	case g.typings <- typing{thread, principal}:
	default:
	}
}

// sayTyping tells those who have a thread in focus that somebody types there.
func (g *Gateway) sayTyping() {
	for {
		select {
		case <-g.ctx.Done():
			return
		case t := <-g.typings:
			places, err := g.threadPlaces(g.ctx, []string{t.thread})
			if err != nil && g.ctx.Err() == nil {
				g.Log.Warn("gateway: cannot say that somebody types", "error", err)
			}
			if place, ok := places[t.thread]; ok {
				g.say(t, place)
			}
		}
	}
}

func (g *Gateway) say(t typing, place authz.Place) {
	now := g.now()
	frame := g.typingBlock(t, place)
	kind := eventlog.TypeOf(eventlog.TypingStarted)
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.focus[t.thread] {
		if s.p.id == t.principal || s.over || s.hears != nil && !s.hears[kind.Receive] || s.catching && !s.quiet { // ES-7.2.6
			continue
		}
		if _, may := s.p.permissions.May(kind.Receive, &authz.Resource{Place: place}, now); may {
			s.stream.Offer(frame)
		}
	}
}

func (g *Gateway) typingBlock(t typing, place authz.Place) *block {
	now := g.Env.Now().UTC()
	payload, err := json.Marshal(wire.TypingStarted{ThreadID: t.thread, PrincipalID: t.principal, ExpiresAt: now.Add(g.Limits.TypingTTL)})
	if err != nil {
		panic(err) // strings and a time
	}
	kind := eventlog.TypeOf(eventlog.TypingStarted)
	return textBlock(dispatch(&wire.Envelope{
		ID: g.Env.NewID(), Type: kind.Name, SchemaVersion: kind.Version, OccurredAt: now, Actor: &wire.Actor{ID: t.principal, Kind: wire.KindUser},
		Scope:    wire.Scope{SpaceID: place.SpaceID, ChannelID: place.ChannelID, ThreadID: t.thread},
		Resource: wire.Resource{Kind: kind.Resource, ID: t.thread}, Payload: payload,
	}))
}
