// Package service is the life of everything that owns a goroutine: Start, then Stop, which waits.
//
// A Group starts services in order and stops them in the reverse order. Stop is bounded by its
// context; what does not stop in time is named in the error.
package service

import (
	"context"
	"errors"
	"fmt"
)

// Service owns goroutines between Start and Stop. Start returns once it works; ctx bounds the
// starting only. Stop returns when every goroutine of the service has ended, or with ctx's error.
type Service interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

type named struct {
	name    string
	service Service
}

// Group is services that live together. It is not safe for concurrent use.
type Group struct {
	members []named
	started int
}

// Add appends a service, to be started after those before it.
func (g *Group) Add(name string, s Service) { g.members = append(g.members, named{name, s}) }

// Start starts every service in order; when one fails the started ones are stopped again.
func (g *Group) Start(ctx context.Context) error {
	for g.started < len(g.members) {
		member := g.members[g.started]
		if err := member.service.Start(ctx); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", member.name, err), g.Stop(ctx))
		}
		g.started++
	}
	return nil
}

// Stop stops the started services in reverse order and answers every failure.
func (g *Group) Stop(ctx context.Context) error {
	var failures []error
	for g.started > 0 {
		g.started--
		member := g.members[g.started]
		if err := member.service.Stop(ctx); err != nil {
			failures = append(failures, fmt.Errorf("stop %s: %w", member.name, err))
		}
	}
	return errors.Join(failures...)
}
