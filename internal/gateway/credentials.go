package gateway

import (
	"time"

	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/wire/code"
)

// healEvery is how often credentials are looked at without a wake-up, which may be lost.
const healEvery = 5 * time.Second

// checkCredentials ends the connections of sign-ins, devices, tokens and principals that were revoked (ES-8.5).
func (g *Gateway) checkCredentials() {
	ticker := time.NewTicker(healEvery)
	defer ticker.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.check:
		case <-ticker.C:
		}
		if err := g.endRevoked(); err != nil && g.ctx.Err() == nil {
			g.Log.Error("gateway: cannot check credentials", "error", err)
		}
	}
}

func (g *Gateway) endRevoked() error {
	for some := range inChunks(g.connections("")) {
		credentials := make([]signin.Credential, len(some))
		for i, s := range some {
			credentials[i] = s.caller.Credential()
		}
		alive, err := storage.Read(g.ctx, g.DB, func(tx storage.Tx) ([]bool, error) { return signin.CredentialsAlive(tx, credentials) })
		if err != nil {
			return err
		}
		for i, s := range some {
			if !alive[i] {
				s.close(code.CloseRevoked, "The sign-in was revoked.")
			}
		}
	}
	return nil
}
