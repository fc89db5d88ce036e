package authz

import (
	"cmp"
	"slices"
	"time"
)

// same reports whether two snapshots of a principal grant the same from a moment on. A nil one grants nothing.
func (s *Snapshot) same(other *Snapshot, from time.Time) bool {
	a, b := cmp.Or(s, &Snapshot{}), cmp.Or(other, &Snapshot{})
	return sameSteps(a.instance, b.instance, from) && sameTargets(a.spaces, b.spaces, from) &&
		sameTargets(a.channels, b.channels, from) && sameTargets(a.hosts, b.hosts, from)
}

func sameTargets(a, b map[string][]given, from time.Time) bool {
	for id, levels := range a {
		if !sameSteps(levels, b[id], from) {
			return false
		}
	}
	for id, levels := range b {
		if _, compared := a[id]; !compared && !sameSteps(levels, nil, from) {
			return false
		}
	}
	return true
}

func sameSteps(a, b []given, from time.Time) bool {
	return slices.EqualFunc(steps(a, from), steps(b, from), func(x, y given) bool {
		return x.level == y.level && (x.ends == nil) == (y.ends == nil) && (x.ends == nil || x.ends.Equal(*y.ends))
	})
}

// steps answers what of several grants on one target counts after a moment: from the highest level down, each that
// lasts longer than those above it.
func steps(all []given, from time.Time) []given {
	sorted := slices.DeleteFunc(slices.Clone(all), func(g given) bool { return g.ends != nil && !g.ends.After(from) })
	slices.SortFunc(sorted, func(a, b given) int {
		if byLevel := cmp.Compare(b.level.Rank(), a.level.Rank()); byLevel != 0 {
			return byLevel
		}
		return laterFirst(a.ends, b.ends)
	})
	var kept []given
	for _, g := range sorted {
		if n := len(kept); n == 0 || laterFirst(g.ends, kept[n-1].ends) < 0 {
			kept = append(kept, g)
		}
	}
	return kept
}

// laterFirst compares ends, of which nil is never.
func laterFirst(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	default:
		return b.Compare(*a)
	}
}

// NextEnd answers when the next of the snapshot's grants and memberships ends after now, and whether one does. Until
// then every decision by the snapshot stays what it is.
func (s *Snapshot) NextEnd(now time.Time) (next time.Time, ends bool) {
	look := func(all []given) {
		for _, g := range all {
			if g.ends != nil && g.ends.After(now) && (!ends || g.ends.Before(next)) {
				next, ends = *g.ends, true
			}
		}
	}
	look(s.instance)
	for _, targets := range []map[string][]given{s.spaces, s.channels, s.hosts} {
		for _, all := range targets {
			look(all)
		}
	}
	return next, ends
}
