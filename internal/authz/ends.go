package authz

import "time"

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
