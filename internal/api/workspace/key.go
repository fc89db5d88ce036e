package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/idempotency"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// uuidV7 is the version that clients make keys of (ES-5.2).
const uuidV7 = 7

// keyID reads the Idempotency-Key of a write: a UUID of version 7, whatever time it holds. An empty one is none.
func keyID(r *http.Request) (string, error) {
	text := r.Header.Get(wire.HeaderIdempotencyKey)
	if text == "" {
		return "", nil
	}
	id, err := uuid.Parse(text)
	if err != nil || len(text) != len(uuid.Nil.String()) || id.Version() != uuidV7 {
		return "", fault.Invalid(wire.HeaderIdempotencyKey, "must be a UUID of version 7")
	}
	return id.String(), nil
}

// keyOf answers the key of a request, nil without one. Its hash is the same for every spelling of the same
// JSON. Path and query are as the client wrote them: they name the object.
func keyOf(r *http.Request, id, principal string, body []byte) (*idempotency.Key, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // a nil Key is a request without one
	}
	canonical := jsontext.Value(body).Clone()
	if len(canonical) > 0 {
		if err := canonical.Canonicalize(); err != nil {
			return nil, fmt.Errorf("canonicalize body: %w", err)
		}
	}
	sum := sha256.New()
	for _, part := range []string{r.Method, r.URL.EscapedPath(), sortedQuery(r.URL), r.Header.Get(headerIfMatch)} {
		write(sum, []byte(part))
	}
	write(sum, canonical)
	return &idempotency.Key{
		Principal: principal, Method: r.Method, Path: r.URL.EscapedPath(), ID: id, Hash: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

func sortedQuery(u *url.URL) string { return u.Query().Encode() }

// write adds a part with its length, so that no two lists of parts are one.
func write(sum hash.Hash, part []byte) {
	sum.Write(strconv.AppendInt(nil, int64(len(part)), 10)) // a hash takes everything
	sum.Write([]byte{':'})
	sum.Write(part)
}
