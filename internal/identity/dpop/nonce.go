package dpop

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/cairnsync/cairn/internal/env"
)

// The parts of a nonce: who made it, when, and the proof of both.
const (
	nodeBytes  = 4
	timeBytes  = 8
	sealBytes  = 16
	nonceBytes = nodeBytes + timeBytes + sealBytes
)

// nonces makes and checks the nonces of one process (WS-ID-2). Its key is made with the process and kept
// nowhere: nonces of other nodes, and those from before the start, are no good here.
type nonces struct {
	env  *env.Env
	ttl  time.Duration
	key  []byte
	node [nodeBytes]byte
}

func newNonces(e *env.Env, ttl time.Duration) *nonces {
	n := &nonces{env: e, ttl: ttl, key: []byte(e.Token(sha256.Size))}
	copy(n.node[:], e.Token(nodeBytes))
	return n
}

// fresh makes a nonce.
func (n *nonces) fresh() string {
	var nonce [nonceBytes]byte
	copy(nonce[:nodeBytes], n.node[:])
	binary.BigEndian.PutUint64(nonce[nodeBytes:], uint64(n.env.Now().UnixMicro()))
	copy(nonce[nodeBytes+timeBytes:], n.seal(nonce[:nodeBytes+timeBytes]))
	return base64.RawURLEncoding.EncodeToString(nonce[:])
}

// check answers when a nonce was made, and whether it is one of ours that is still good.
func (n *nonces) check(text string) (made time.Time, good bool) {
	var nonce [nonceBytes]byte
	if len(text) != base64.RawURLEncoding.EncodedLen(nonceBytes) {
		return time.Time{}, false
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(nonce[:], []byte(text)); err != nil {
		return time.Time{}, false
	}
	if !hmac.Equal(nonce[nodeBytes+timeBytes:], n.seal(nonce[:nodeBytes+timeBytes])) {
		return time.Time{}, false
	}
	made = time.UnixMicro(int64(binary.BigEndian.Uint64(nonce[nodeBytes:])))
	age := n.env.Now().Sub(made)
	// A process clock that was set back makes nonces from the future: they would outlive what is remembered of them.
	return made, age >= 0 && age < n.ttl
}

func (n *nonces) seal(of []byte) []byte {
	mac := hmac.New(sha256.New, n.key)
	mac.Write(of)
	return mac.Sum(nil)[:sealBytes]
}
