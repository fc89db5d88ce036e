package dpop

import (
	"sync"
	"time"
)

// slots is how many parts the life of a nonce is divided into: what is remembered of the proofs with
// nonces of one part is dropped at once.
const slots = 8

// proofID is a hash over a key's thumbprint and the jti of a proof.
type proofID [16]byte

// spent remembers proofs until their nonces lapse.
type spent struct {
	ttl   time.Duration
	width time.Duration
	limit int

	mu    sync.Mutex                     // guards what follows
	parts map[int64]map[proofID]struct{} // by the part of time in which their nonces were made
	count int
}

func newSpent(ttl time.Duration, limit int) *spent {
	return &spent{ttl: ttl, width: max(ttl/slots, 1), limit: limit, parts: make(map[int64]map[proofID]struct{})}
}

// add remembers a proof whose nonce was made at made. fresh is false when it is known already, room when
// there is no room: such a proof must be refused, since its replay could not be told.
func (s *spent) add(id proofID, made, now time.Time) (fresh, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(now)
	for _, part := range s.parts {
		if _, known := part[id]; known {
			return false, true
		}
	}
	if s.count >= s.limit {
		return true, false
	}
	number := made.UnixNano() / int64(s.width)
	part := s.parts[number]
	if part == nil {
		part = make(map[proofID]struct{})
		s.parts[number] = part
	}
	part[id] = struct{}{}
	s.count++
	return true, true
}

// drop forgets the parts of time whose youngest nonce has lapsed.
func (s *spent) drop(now time.Time) {
	for number, part := range s.parts {
		youngest := time.Unix(0, (number+1)*int64(s.width))
		if now.Sub(youngest) >= s.ttl {
			s.count -= len(part)
			delete(s.parts, number)
		}
	}
}
