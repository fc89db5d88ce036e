package gateway

import (
	"context"
	"fmt"
	"slices"

	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/conn"
)

type block = conn.Block

func textBlock(text []byte) *block { return conn.NewBlock(conn.Frame{Text: text}) }

// hold makes sure that what happens to a principal's permissions is noted from now on. release ends it.
func (g *Gateway) hold(id string) *principal {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.principals[id]
	if p == nil {
		p = &principal{id: id}
		g.principals[id] = p
	}
	p.holds++
	return p
}

func (g *Gateway) release(p *principal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.holds--
	g.letGo(p)
}

// letGo forgets a principal without connections. The mutex is held.
func (g *Gateway) letGo(p *principal) {
	if p.holds == 0 && len(p.sessions) == 0 && !p.gone {
		p.gone = true
		g.index.move(p, p.reach, reach{})
		delete(g.principals, p.id)
	}
}

// stretch is a part of the log: behind after, up to and including upTo.
type stretch struct{ after, upTo int64 }

// join makes the connection live from now on, behind what it has missed, which is answered.
func (g *Gateway) join(ctx context.Context, s *session, p *principal, with entrance) (*stretch, error) {
	for {
		g.mu.Lock()
		if p.permissions == nil && with.permissions.Version >= p.wanted {
			g.adopt(p, with.permissions)
		}
		if p.permissions != nil {
			missed, err := g.joined(s, p, with)
			g.mu.Unlock()
			return missed, err
		}
		g.mu.Unlock() // permissions changed since they were read
		fresh, err := storage.Read(ctx, g.DB, func(tx storage.Tx) (*authz.Snapshot, error) { return permissionsOf(tx, p.id) })
		if err != nil {
			return nil, fmt.Errorf("read permissions: %w", err)
		}
		with.permissions = fresh
	}
}

// joined is join with the mutex held and the permissions known.
func (g *Gateway) joined(s *session, p *principal, with entrance) (*stretch, error) {
	switch {
	case s.over:
		return nil, nil //nolint:nilnil // it has missed nothing any more
	case g.stopping:
		return nil, &refusal{code.CloseServerRestart, "The server stops."}
	case p.gone:
		return nil, &refusal{code.CloseUnknownError, "The server fell behind."}
	case !p.permissions.Active():
		return nil, &refusal{code.CloseRevoked, "The account is not active."}
	}
	s.p = p
	p.sessions = append(p.sessions, s)
	g.devices[s.device] = append(g.devices[s.device], s)
	s.quiet = with.cursor == nil
	after := with.state.Head
	if !s.quiet {
		after = min(*with.cursor, after)
	}
	// What passes from now on comes by itself; what passed since the client's state was read does not.
	s.from = max(g.head, with.state.Head)
	s.told = after
	if after < s.from && (!s.quiet || after < g.head) {
		s.catching = true
		return &stretch{after, s.from}, nil
	}
	if !s.quiet {
		s.stream.Send(blockOf(wire.OpCatchupComplete, wire.CatchupComplete{HeadSeq: s.from}))
	}
	return nil, nil //nolint:nilnil // it has missed nothing
}

// part takes a connection out. The mutex is held.
func (g *Gateway) part(s *session) {
	p := s.p
	p.sessions = slices.DeleteFunc(p.sessions, func(other *session) bool { return other == s })
	others := slices.DeleteFunc(g.devices[s.device], func(other *session) bool { return other == s })
	if len(others) == 0 {
		delete(g.devices, s.device)
	} else {
		g.devices[s.device] = others
	}
	g.forgetFocus(s)
	g.letGo(p)
}
