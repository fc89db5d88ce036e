package signin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/testkit"
)

// What it costs to know who sends a request: token, proof, standing and replay, of a client that is known. Compare
// with the bare check of a signature in internal/identity/dpop.
func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b, testkit.New(b, testkit.SQLite).DB)
	w.person(b, "ada")
	for _, c := range []*client{newClient(b).login(w, "ada"), newEd25519Client(b).login(w, "ada")} {
		b.Run(string(c.alg), func(b *testing.B) {
			requests := make([]signin.Request, 0, b.N)
			for range b.N {
				requests = append(requests, c.request(w, c.answer.AccessToken))
			}
			b.ResetTimer()
			for _, request := range requests {
				_, err := w.Authenticate(b.Context(), request)
				require.NoError(b, err)
			}
		})
	}
}
