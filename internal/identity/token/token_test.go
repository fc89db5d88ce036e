package token

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/env"
)

const (
	instance = "01a22e3b-09e9-7343-8180-28aa2c4aa737"
	life     = 10 * time.Minute
)

func newKey(tb testing.TB) Key {
	tb.Helper()
	key, err := NewKey(env.Real())
	require.NoError(tb, err)
	return key
}

func access(at time.Time) Access {
	e := env.Real()
	return Access{
		Principal: e.NewID(), SignIn: e.NewID(), Device: e.NewID(), AuthTime: at, Thumbprint: "jkt",
		IssuedAt: at, ExpiresAt: at.Add(life), ID: e.NewID(),
	}
}

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	keys := Keys{newKey(t), key}
	want := access(now)
	raw, err := key.Sign(instance, want)
	require.NoError(t, err)

	t.Run("WS-ID-1 what was signed is what is read", func(t *testing.T) {
		t.Parallel()
		got, err := keys.Verify(raw, instance, now, life)
		require.NoError(t, err)
		require.Equal(t, want, got)
		stored, err := ParseKey(key.ID, key.Stored(), time.Time{})
		require.NoError(t, err)
		_, err = Keys{stored}.Verify(raw, instance, now, life)
		require.NoError(t, err)
	})
	t.Run("WS-ID-1 it ends, and says that it was good", func(t *testing.T) {
		t.Parallel()
		_, err := keys.Verify(raw, instance, now.Add(life-time.Second), life)
		require.NoError(t, err)
		_, err = keys.Verify(raw, instance, now.Add(life), life)
		require.ErrorIs(t, err, ErrExpired)
	})
	t.Run("WS-ID-1 of another instance or another key it is nothing", func(t *testing.T) {
		t.Parallel()
		_, err := keys.Verify(raw, env.Real().NewID(), now, life)
		require.ErrorIs(t, err, errForeign)
		_, err = Keys{newKey(t)}.Verify(raw, instance, now, life)
		require.ErrorIs(t, err, ErrUnknownKey)
		impostor := newKey(t)
		impostor.ID = key.ID
		_, err = Keys{impostor}.Verify(raw, instance, now, life)
		require.ErrorIs(t, err, errMalformed)
		_, err = keys.Verify(raw, instance, now.Add(life), life)
		require.ErrorIs(t, err, ErrExpired)
	})
	t.Run("WS-ID-6 a replaced key verifies what it signed, and nothing it might sign later", func(t *testing.T) {
		t.Parallel()
		replaced := key
		replaced.RotatedAt = now.Add(time.Minute)
		_, err := Keys{replaced}.Verify(raw, instance, now, life)
		require.NoError(t, err)
		for _, forged := range []Access{
			{IssuedAt: now.Add(time.Hour), ExpiresAt: now.Add(time.Hour + life)}, // after the rotation
			{IssuedAt: now, ExpiresAt: now.Add(time.Hour)},                       // dated back, but long
		} {
			whole := access(now)
			whole.IssuedAt, whole.ExpiresAt = forged.IssuedAt, forged.ExpiresAt
			late, err := key.Sign(instance, whole)
			require.NoError(t, err)
			_, err = Keys{replaced}.Verify(late, instance, now, life)
			require.ErrorIs(t, err, ErrUnknownKey)
		}
	})
	t.Run("WS-ID-1 every byte counts", func(t *testing.T) {
		t.Parallel()
		for i := range len(raw) {
			broken := []byte(raw)
			broken[i] ^= 1
			_, err := keys.Verify(string(broken), instance, now, life)
			require.Error(t, err, "byte %d", i)
		}
	})
}

// signAs signs with a header of the test's choice.
func signAs(t *testing.T, key Key, kind string, alg jose.SignatureAlgorithm, with any, payload []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: with, KeyID: key.ID}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	require.NoError(t, err)
	signed, err := signer.Sign(payload)
	require.NoError(t, err)
	compact, err := signed.CompactSerialize()
	require.NoError(t, err)
	return compact
}

func TestAccessTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	good := map[string]any{
		"iss": instance, "aud": instance, "sub": env.Real().NewID(), "sid": env.Real().NewID(), "did": env.Real().NewID(),
		"auth_time": now.Unix(), "cnf": map[string]string{"jkt": "x"}, "iat": now.Unix(), "exp": now.Add(life).Unix(), "jti": "x",
	}
	encode := func(change map[string]any) []byte {
		claims := maps.Clone(good)
		maps.Copy(claims, change)
		encoded, err := json.Marshal(claims)
		require.NoError(t, err)
		return encoded
	}
	refused := func(raw string) {
		t.Helper()
		_, err := Keys{key}.Verify(raw, instance, now, life)
		require.Error(t, err, raw)
	}
	_, err := Keys{key}.Verify(signAs(t, key, "at+jwt", jose.EdDSA, key.private, encode(nil)), instance, now, life)
	require.NoError(t, err)
	for _, change := range []map[string]any{
		{"iss": "x"}, {"aud": "x"}, {"aud": []string{instance}}, {"sub": "x"}, {"sid": ""}, {"did": nil}, {"cnf": map[string]string{}},
		{"exp": now.Unix()}, {"exp": "x"}, {"iat": 1.5}, {"jti": ""}, {"sub": strings.ToUpper(good["sub"].(string))},
	} {
		refused(signAs(t, key, "at+jwt", jose.EdDSA, key.private, encode(change)))
	}
	refused(signAs(t, key, "JWT", jose.EdDSA, key.private, encode(nil)))
	refused(signAs(t, key, "dpop+jwt", jose.EdDSA, key.private, encode(nil)))
	refused(signAs(t, key, "at+jwt", jose.HS256, []byte(key.public()), encode(nil)))
	refused(signAs(t, key, "at+jwt", jose.EdDSA, key.private, []byte(`{"iss":"a","iss":"b"}`)))
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt","kid":"` + key.ID + `"}`))
	refused(none + "." + base64.RawURLEncoding.EncodeToString(encode(nil)) + ".")
	refused(strings.Repeat("x", maxAccess+1))
	for _, stored := range []string{"", "x", base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SeedSize-1))} {
		_, err := ParseKey("id", stored, time.Time{})
		require.Error(t, err)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	e := env.Real()
	t.Run("WS-ID-1 a refresh token is parsed back, in one spelling only", func(t *testing.T) {
		t.Parallel()
		family := NewFamily(e)
		refresh, text := NewRefresh(e, family)
		parsed, ok := ParseRefresh(text)
		require.True(t, ok)
		require.Equal(t, refresh, parsed)
		require.Equal(t, family, parsed.Family)
		require.NotContains(t, string(refresh.Secret), text[len(text)-secretChars:])
		for _, bad := range []string{"", refreshPrefix, text[1:], text + "A", text[:len(text)-1], strings.ToUpper(text), text[:len(text)-1] + "=", " " + text} {
			_, ok := ParseRefresh(bad)
			require.False(t, ok, bad)
		}
	})
	t.Run("WS-ID-2 an API token is parsed back, in one spelling only", func(t *testing.T) {
		t.Parallel()
		text, hash, hint := NewAPI(e)
		parsed, ok := ParseAPI(text)
		require.True(t, ok)
		require.Equal(t, hash, parsed)
		require.True(t, strings.HasSuffix(text, hint))
		for _, bad := range []string{"", apiPrefix, text + "A", strings.ToUpper(text), text[:len(text)-1] + "="} {
			_, ok := ParseAPI(bad)
			require.False(t, ok, bad)
		}
	})
	t.Run("WS-ID-1 a login code is typed in any case, with any dashes", func(t *testing.T) {
		t.Parallel()
		text, hash := NewCode(e)
		require.Regexp(t, `^([A-HJ-NP-Z2-9]{4}-){3}[A-HJ-NP-Z2-9]{4}$`, text)
		for _, typed := range []string{text, strings.ToLower(text), strings.ReplaceAll(text, "-", ""), " " + strings.ReplaceAll(text, "-", " ")} {
			parsed, ok := ParseCode(typed)
			require.True(t, ok, typed)
			require.Equal(t, hash, parsed)
		}
		for _, bad := range []string{"", text[1:], text + "A", strings.Repeat("0", 16), strings.Repeat("é", 16)} {
			_, ok := ParseCode(bad)
			require.False(t, ok, bad)
		}
	})
}

func FuzzAccess(f *testing.F) {
	key := newKey(f)
	raw, err := key.Sign(instance, access(now))
	require.NoError(f, err)
	for _, seed := range []string{raw, "", "..", raw + "x", raw[:40]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := (Keys{key}).Verify(text, instance, now, life); err == nil {
			require.NotEmpty(t, got.Principal)
			require.Equal(t, raw, text, "only what was signed is good")
		}
	})
}

func FuzzRefresh(f *testing.F) {
	_, text := NewRefresh(env.Real(), NewFamily(env.Real()))
	for _, seed := range []string{text, "", refreshPrefix, text + "=", text[:50]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if parsed, ok := ParseRefresh(text); ok {
			require.Len(t, text, len(refreshPrefix)+2*secretChars)
			require.Equal(t, text, refreshPrefix+parsed.Family+text[len(text)-secretChars:])
		}
	})
}

func FuzzAPI(f *testing.F) {
	text, hash, _ := NewAPI(env.Real())
	for _, seed := range []string{text, "", apiPrefix, text + "=", text + "\n", text[:20], strings.ToUpper(text)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, other string) {
		parsed, ok := ParseAPI(other)
		if ok {
			require.Len(t, other, len(apiPrefix)+secretChars)
		}
		require.Equal(t, other == text, parsed == hash)
	})
}

func FuzzCode(f *testing.F) {
	for _, seed := range []string{"ABCD-EFGH-JKLM-NPQR", "", "abcd efgh jklm npqr", "ſſſſ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if hash, ok := ParseCode(text); ok {
			again, ok := ParseCode(strings.ToLower(text))
			require.True(t, ok)
			require.Equal(t, hash, again)
		}
	})
}
