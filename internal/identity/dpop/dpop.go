// Package dpop checks proofs of possession (RFC 9449) with nonces of the server's own (WS-ID-2).
//
// Contract. A proof is good when its key signed it for this method, this address, this access token and a
// nonce that this process made at most the nonce's life ago. Nonces stand in for the time a proof claims,
// since clocks of clients may be wrong. Verify says whether a proof is good; Spend says whether it is the
// first of its kind, and has to be called once everything else about the request was found in order:
// what is remembered is bounded, and only callers that are known may fill it. A replayed proof is refused
// everywhere: on the node that made its nonce because it is remembered, on the others because the nonce
// is not theirs.
//
// Blocking and concurrency. A Verifier is safe for concurrent use and never waits for anything but its
// own locks. What it remembers of keys and proofs is bounded; at the bound keys are parsed again, and
// proofs refused with unavailable.
package dpop

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/cairnsync/cairn/internal/env"
	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/lru"
	"github.com/cairnsync/cairn/wire/code"
)

const (
	// maxKeys is how many keys stay parsed. A client sends the same header with every proof.
	maxKeys = 16_384
	// maxSpent is how many proofs of signed-in callers are remembered at a time, some 25 bytes each: five
	// minutes of 6 900 requests a second.
	maxSpent = 1 << 21
	// maxSpentAtLogin is how many proofs of sign-ins are.
	maxSpentAtLogin = 1 << 17
)

// Place is where a proof was shown. What is remembered of proofs is bounded for each place apart.
type Place int

// The places.
const (
	AtRequest Place = iota // beside an access token or API token
	AtLogin                // at the token endpoint
)

// Want is what a proof has to say.
type Want struct {
	Method string
	Target string // as of Target
	// AccessToken is the token beside the proof; "" at the token endpoint.
	AccessToken string
	// Nonce is the one nonce that will do; "" is any that is good.
	Nonce string
}

// Proof is a proof that is good. Spend it before you act on it.
type Proof struct {
	Thumbprint string // of its key (RFC 7638)

	id   proofID
	made time.Time // when its nonce was made
}

// Verifier checks the proofs that reach one process. Make it with New.
type Verifier struct {
	env    *env.Env
	nonces *nonces
	spent  [2]*spent // by Place

	mu   sync.Mutex // guards keys
	keys *lru.Cache[string, proofKey]
}

// New makes a Verifier whose nonces live for ttl (auth.dpop_nonce_ttl).
func New(e *env.Env, ttl time.Duration) *Verifier {
	return &Verifier{
		env: e, nonces: newNonces(e, ttl),
		spent: [2]*spent{AtRequest: newSpent(ttl, maxSpent), AtLogin: newSpent(ttl, maxSpentAtLogin)},
		keys:  lru.New[string, proofKey](maxKeys),
	}
}

// Nonce makes a nonce for proofs.
func (v *Verifier) Nonce() string { return v.nonces.fresh() }

// Verify answers the proof when it is good: invalid_dpop_proof when it is not, use_dpop_nonce when only its
// nonce is missing, stale or another node's.
func (v *Verifier) Verify(proof string, want Want) (Proof, error) {
	parts, err := split(proof)
	if err != nil {
		return Proof{}, bad(err.Error())
	}
	key, known := v.key(parts.header)
	if !known {
		if key, err = parseHeader(parts.header); err != nil {
			return Proof{}, bad(err.Error())
		}
	}
	said, err := parseClaims(parts.payload)
	if err != nil {
		return Proof{}, bad(err.Error())
	}
	if problem := said.differ(want); problem != "" {
		return Proof{}, bad(problem)
	}
	made, good := v.nonces.check(said.Nonce)
	if !good {
		return Proof{}, fault.New(code.UseDPoPNonce, "Sign the proof again, with the nonce of this answer.")
	}
	if want.Nonce != "" && said.Nonce != want.Nonce {
		return Proof{}, bad("its nonce is not the one it was asked for")
	}
	// Last, because it costs the most.
	if !key.signed(parts.header, parts.payload, parts.signature) {
		return Proof{}, bad("its signature is wrong")
	}
	if !known {
		v.keep(parts.header, key)
	}
	return Proof{Thumbprint: key.thumbprint, id: said.id(key.thumbprint), made: made}, nil
}

// Spend answers invalid_dpop_proof when the proof was shown before, unavailable when too many are
// remembered to tell.
func (v *Verifier) Spend(proof Proof, at Place) error {
	fresh, room := v.spent[at].add(proof.id, proof.made, v.env.Now())
	switch {
	case !fresh:
		return bad("it was used before")
	case !room:
		return fault.New(code.Unavailable, "Too many proofs are remembered right now. Try again later.")
	default:
		return nil
	}
}

func (v *Verifier) key(header string) (proofKey, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.keys.Get(header)
}

func (v *Verifier) keep(header string, key proofKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys.Put(header, key)
}

// differ answers in what a proof is for something else, or "".
func (c claims) differ(want Want) string {
	switch {
	case c.HTM != want.Method:
		return "its htm is not the method"
	case !sameTarget(c.HTU, want.Target):
		return "its htu is not this address"
	case c.ATH != hashOf(want.AccessToken):
		return "its ath is not of this access token"
	default:
		return ""
	}
}

func sameTarget(said, target string) bool {
	if said == target {
		return target != ""
	}
	normal, ok := Target(said)
	return ok && normal == target
}

// hashOf answers the `ath` of an access token, "" for none.
func hashOf(token string) string {
	if token == "" {
		return ""
	}
	hash := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// id names a proof for as long as it is remembered: its key and its jti.
func (c claims) id(thumbprint string) proofID {
	hash := sha256.Sum256([]byte(thumbprint + " " + c.JTI))
	return proofID(hash[:len(proofID{})])
}

func bad(problem string) error {
	return fault.New(code.InvalidDPoPProof, "The DPoP proof is no good: %s.", problem)
}
