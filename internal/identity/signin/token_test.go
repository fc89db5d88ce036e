package signin_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		w := newWorld(t, db.DB)
		ada := w.person(t, "ada")

		t.Run("WS-ID-1 a login code, a password, both algorithms", func(t *testing.T) {
			for _, c := range []*client{newClient(t), newEd25519Client(t)} {
				c.login(w, "ada")
				require.Equal(t, wire.TokenPrincipal{ID: ada, Kind: wire.KindUser, Handle: "ada"}, c.answer.Principal)
				require.Equal(t, wire.DeviceOfToken{ID: c.device.ID, State: wire.DeviceActive}, c.answer.Device)
				require.Equal(t, []any{"DPoP", int64(600)}, []any{c.answer.TokenType, c.answer.ExpiresIn})
				caller, err := c.ask(w)
				require.NoError(t, err)
				require.Equal(t, []any{ada, wire.KindUser, c.device.ID, c.answer.SessionID, c.thumbprint()},
					[]any{caller.Principal, caller.Kind, caller.Device, caller.SignIn, caller.Thumbprint})
				require.WithinDuration(t, time.Now(), caller.AuthTime, time.Minute)
				require.WithinDuration(t, w.clock.read().Add(10*time.Minute), caller.ExpiresAt, time.Second)
				_, err = c.password(w, "ada", "password of ada")
				require.NoError(t, err)
			}
		})
		t.Run("WS-ID-1 what the access token says", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			parts := strings.Split(c.answer.AccessToken, ".")
			header, claims := decode(t, parts[0]), decode(t, parts[1])
			require.Equal(t, []any{"at+jwt", "EdDSA"}, []any{header["typ"], header["alg"]})
			var instance string
			require.NoError(t, db.DB.Read(t.Context(), func(tx storage.Tx) error {
				_, err := tx.Get(`SELECT id FROM instance`, nil, &instance)
				return err
			}))
			require.Equal(t, []any{instance, instance, ada, c.answer.SessionID, c.device.ID, map[string]any{"jkt": c.thumbprint()}},
				[]any{claims["iss"], claims["aud"], claims["sub"], claims["sid"], claims["did"], claims["cnf"]})
			for _, name := range []string{"auth_time", "iat", "exp", "jti"} {
				require.NotEmpty(t, claims[name], name)
			}
		})
		t.Run("WS-ID-1 a login code works once, also for two at once", func(t *testing.T) {
			made := w.code(t, "ada")
			results := make([]error, 8)
			var group sync.WaitGroup
			for i := range results {
				c := newClient(t)
				group.Go(func() { _, results[i] = c.call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: made}) })
			}
			group.Wait()
			good := 0
			for _, err := range results {
				if err == nil {
					good++
				} else {
					requireFault(t, err, code.InvalidCredentials)
				}
			}
			require.Equal(t, 1, good)
		})
		t.Run("WS-ID-1 a login code is good for ten minutes, however it is typed", func(t *testing.T) {
			made, err := w.MakeLoginCode(t.Context(), "ada")
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(10*time.Minute), made.ExpiresAt, time.Minute)
			typed := strings.ToLower(strings.ReplaceAll(made.Code, "-", " "))
			_, err = newClient(t).call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: typed})
			require.NoError(t, err)
			late := w.code(t, "ada")
			w.exec(t, `UPDATE login_codes SET expires_at = $1 WHERE used_at IS NULL`, time.Now().Add(-time.Second))
			_, err = newClient(t).call(w, wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: late})
			requireFault(t, err, code.InvalidCredentials)
		})
		t.Run("WS-ID-1 nothing but hashes is stored", func(t *testing.T) {
			c := newClient(t).login(w, "ada")
			secret := c.answer.RefreshToken[len(c.answer.RefreshToken)-43:]
			for _, column := range []string{"token_hash", "family", "previous_hash"} {
				require.Zero(t, w.number(t, `SELECT count(*) FROM sign_ins WHERE `+column+` LIKE '%' || $1 || '%'`, secret))
			}
		})
	})
}

func decode(t *testing.T, segment string) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(segment)
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(raw, &members))
	return members
}

func TestTokenRequestsThatLackSomething(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.New(t, testkit.SQLite).DB)
	w.person(t, "ada")
	c := newClient(t)
	noID := wire.DeviceRequest{ID: "laptop", Name: "laptop", Platform: "cli"}
	for name, request := range map[string]wire.TokenRequest{
		"no grant":          {},
		"another grant":     {GrantType: "client_credentials"},
		"no password":       {GrantType: wire.GrantPassword, Username: "ada"},
		"no code":           {GrantType: wire.GrantLoginCode},
		"no verifier":       {GrantType: wire.GrantOIDCCode, Code: "x", RedirectURI: "https://x.example"},
		"no refresh token":  {GrantType: wire.GrantRefreshToken},
		"device without id": {GrantType: wire.GrantLoginCode, Code: "x", Device: &noID},
		"session no id":     {GrantType: wire.GrantLoginCode, Code: "x", SessionID: "x"},
		"refresh steps up":  {GrantType: wire.GrantRefreshToken, RefreshToken: "x", SessionID: testkit.Env().NewID()},
		"no issuer":         {GrantType: wire.GrantOIDCCode, Code: "x", RedirectURI: "https://x.example", CodeVerifier: "x"},
	} {
		_, err := c.call(w, request)
		require.True(t, fault.Is(err, code.ValidationFailed), "%s: %v", name, err)
	}
	_, err := w.Token(t.Context(), signin.TokenCall{URL: tokenURL, Request: wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: "x"}})
	requireFault(t, err, code.ValidationFailed)
	_, err = w.Token(t.Context(), signin.TokenCall{URL: tokenURL, Request: wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: "x", Device: &c.device}})
	requireFault(t, err, code.InvalidDPoPProof)
	proof := c.proof("POST", tokenURL, "", "")
	_, err = w.Token(t.Context(), signin.TokenCall{
		URL: tokenURL, DPoP: []string{proof}, Request: wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: "x", Device: &c.device},
	})
	requireFault(t, err, code.UseDPoPNonce)
	for _, text := range []string{"", "x", "cairnr_", "cairnr_" + strings.Repeat("A", 86), "cairnr_" + strings.Repeat("=", 86), strings.Repeat("x", 1<<16)} {
		_, err := c.call(w, wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: text})
		require.Error(t, err)
	}
}
