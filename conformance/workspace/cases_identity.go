package workspace

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func identityCases() []testCase {
	return []testCase{
		{rule: "WS-ID-1", name: "a login code signs in once", run: caseLoginCode},
		{rule: "WS-ID-1", name: "the access token is a JWT with its claims", run: caseAccessToken},
		{rule: "WS-ID-1", name: "refresh rotates, a lost answer locks nobody out, reuse ends the sign-in", run: caseRefresh},
		{rule: "WS-ID-1", name: "a refresh token is bound to its key", run: caseRefreshKey},
		{rule: "WS-ID-2", name: "a proof is bound to method, address, token and nonce", run: caseProof},
		{rule: "WS-ID-2", name: "a replayed proof is refused", run: caseReplay},
		{rule: "WS-ID-2", name: "nonces stand in for iat: clocks may be wrong", run: caseWrongClock},
		{rule: "WS-ID-2", name: "no token, a foreign token and a bearer token of people are refused", run: caseNoToken},
		{rule: "WS-ID-2", name: "agents come with a bearer token", run: caseBearer},
		{rule: "WS-ID-3", name: "later devices wait for approval and reach little until then", profile: approval, run: caseApproval},
		{rule: "WS-ID-3", name: "a foreign device id is 403, a revoked one is refused", run: caseForeignDevice},
		{rule: "WS-ID-3", name: "a new key takes a full login and ends the device's sign-ins", run: caseNewKey},
		{rule: "WS-ID-4", name: "passwords sign in; failures are limited and look alike", profile: locking, slow: true, run: casePassword},
		{rule: "WS-ID-5", name: "grants and devices need a fresh proof of who one is, renewed with the same sid", profile: stepUp, slow: true, run: caseStepUp},
		{rule: "WS-ID-6", name: "keys rotate, and what the one before signed stays good", profile: rotating, run: caseRotation},
	}
}

func caseLoginCode(t *trial) {
	p := t.member(t.owner())
	made := read[wire.LoginCode](p.post("/login-codes", object{}), http.StatusCreated)
	require.WithinDuration(t, time.Now().Add(10*time.Minute), made.ExpiresAt, 2*time.Minute)
	second := t.newPerson(p.id, p.handle)
	in := wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: made.Code, Device: second.named()}
	tokens := read[wire.TokenAnswer](second.token(in), http.StatusOK)
	require.Equal(t, "DPoP", tokens.TokenType)
	require.Positive(t, tokens.ExpiresIn)
	require.Equal(t, p.id, tokens.Principal.ID)
	require.Equal(t, p.handle, tokens.Principal.Handle)
	require.Equal(t, wire.DeviceOfToken{ID: second.device, State: wire.DeviceActive}, tokens.Device)
	third := t.newPerson(p.id, p.handle)
	in.Device = third.named()
	third.token(in).refused(code.InvalidCredentials)
	require.Contains(t, types(p.events(0)), "device.updated")
}

func caseAccessToken(t *trial) {
	p := t.owner()
	parts := strings.Split(p.held().AccessToken, ".")
	require.Len(t, parts, 3)
	var head, claims map[string]any
	for i, into := range []*map[string]any{&head, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		require.NoError(t, err)
		require.NoError(t, decode(raw, into))
	}
	require.Equal(t, "at+jwt", head["typ"])
	require.Equal(t, "EdDSA", head["alg"])
	instance := read[wire.Discovery](p.exchange(http.MethodGet, api, nil, nil), http.StatusOK).InstanceID
	require.Equal(t, instance, claims["iss"])
	require.Equal(t, p.id, claims["sub"])
	require.Equal(t, p.device, claims["did"])
	require.Equal(t, p.held().SessionID, claims["sid"])
	require.Contains(t, claims, "auth_time")
	require.Contains(t, claims, "cnf")
	require.Contains(t, claims, "iat")
	require.Contains(t, claims, "exp")
	keys := p.exchange(http.MethodGet, "/.well-known/jwks.json", nil, nil).want(http.StatusOK)
	require.Contains(t, string(keys.body), head["kid"])
}

func caseRefresh(t *trial) {
	p := t.member(t.owner())
	first := p.held().RefreshToken
	second := read[wire.TokenAnswer](p.refresh(), http.StatusOK)
	require.NotEqual(t, first, second.RefreshToken)
	old := wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: first}
	third := read[wire.TokenAnswer](p.token(old), http.StatusOK) // the answer was lost: its successor is unused
	require.NotEqual(t, second.RefreshToken, third.RefreshToken)
	p.refresh().want(http.StatusOK)
	s := p.connect()
	p.token(old).refused(code.InvalidCredentials)
	s.closed(code.CloseRevoked)
	p.refresh().refused(code.InvalidCredentials)
	p.shutOut()
}

func caseRefreshKey(t *trial) {
	p := t.member(t.owner())
	thief := t.newPerson(p.id, p.handle)
	thief.device = p.device
	thief.token(wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: p.held().RefreshToken}).refused(code.InvalidCredentials)
}

// proven sends GET me with a proof that change has altered, once, to the first node.
func (p *person) proven(change func(*proof)) *answer {
	node, path := p.t.in.Nodes()[0], api+"/me"
	if p.nonce(node) == "" {
		p.exchangeAt(node, http.MethodGet, path, nil, p.prove(p.held().AccessToken)).want(http.StatusOK)
	}
	return p.send(node, http.MethodGet, path, nil, func(node string, r *http.Request) {
		good := proof{method: http.MethodGet, url: node + path, nonce: p.nonce(node), token: p.held().AccessToken, jti: uuid.NewString()}
		change(&good)
		r.Header.Set("Authorization", "DPoP "+p.held().AccessToken)
		r.Header.Set(wire.HeaderDPoP, sign(p.key, good))
	}, nil)
}

func caseProof(t *trial) {
	p := t.owner()
	p.proven(func(*proof) {}).want(http.StatusOK)
	for _, change := range []func(*proof){
		func(p *proof) { p.method = http.MethodPost },
		func(p *proof) { p.url += "x" },
		func(p *proof) { p.url = "https://elsewhere.example" + api + "/me" },
		func(p *proof) { p.token = "another" },
		func(p *proof) { p.token = "" },
	} {
		p.proven(change).refused(code.InvalidDPoPProof)
	}
	p.proven(func(p *proof) { p.url += "?query=1" }).want(http.StatusOK)
	for _, nonce := range []string{"", "nobody made this"} {
		a := p.proven(func(p *proof) { p.nonce = nonce })
		a.refused(code.UseDPoPNonce)
		require.NotEmpty(t, a.header.Get(wire.HeaderDPoPNonce))
	}
	stranger := t.newPerson(p.id, p.handle)
	stranger.tokens = p.held()
	stranger.get("/me").refused(code.InvalidDPoPProof)
}

func caseReplay(t *trial) {
	p := t.owner()
	jti := uuid.NewString()
	p.proven(func(p *proof) { p.jti = jti }).want(http.StatusOK)
	for range 2 {
		a := p.proven(func(p *proof) { p.jti = jti })
		require.Equal(t, http.StatusUnauthorized, a.status, "%s", a)
	}
	answers := rulebook.Concurrently(4, func(int) *answer { return p.proven(func(p *proof) { p.jti = "at once " + jti }) })
	taken := 0
	for _, a := range answers {
		if a.status == http.StatusOK {
			taken++
		}
	}
	require.Equal(t, 1, taken)
}

func caseWrongClock(t *trial) {
	p := t.owner()
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		p.proven(func(p *proof) { p.at = time.Now().Add(off) }).want(http.StatusOK)
	}
}

func caseNoToken(t *trial) {
	p := t.owner()
	p.exchange(http.MethodGet, api+"/me", nil, nil).refused(code.InvalidToken)
	p.exchange(http.MethodGet, api+"/me", nil, p.prove("x.y.z")).refused(code.InvalidToken)
	a := p.exchange(http.MethodGet, api+"/me", nil, nil, header{"Authorization", "Bearer " + p.held().AccessToken})
	require.Equal(t, http.StatusUnauthorized, a.status, "%s", a)
}

func caseBearer(t *trial) {
	r := t.room()
	made := r.owner.newAgent()
	r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: made.PrincipalID},
		Target:  wire.Target{Kind: wire.TargetChannel, ID: r.channel.ID}, Level: wire.LevelWrite,
	})
	bearer := header{"Authorization", "Bearer " + made.Token}
	a := r.owner.exchange(http.MethodPost, api+"/threads/"+r.thread+"/messages", wire.NewMessage{ClientMsgID: newID(), ContentMD: "beep"}, nil, bearer)
	sent := read[wire.Message](a, http.StatusCreated)
	require.Equal(t, wire.OriginAgent, sent.Origin)
	require.Equal(t, made.PrincipalID, sent.Author.ID)
	r.owner.delete("/agents/" + made.PrincipalID + "/tokens/" + made.ID).want(http.StatusNoContent)
	t.Eventually(patience, "every node knows of the revocation", func() bool {
		for range 2 * len(t.in.Nodes()) {
			if r.owner.exchange(http.MethodGet, api+"/me", nil, nil, bearer).status != http.StatusUnauthorized {
				return false
			}
		}
		return true
	})
}

func (p *person) newAgent() wire.APITokenMade {
	agent := read[wire.Principal](p.post("/agents", wire.NewPrincipal{Handle: "a" + newID()[24:], DisplayName: "Agent"}), http.StatusCreated)
	return read[wire.APITokenMade](p.post("/agents/"+agent.ID+"/tokens", wire.NewToken{Name: "token"}), http.StatusCreated)
}

// A login code is made by an active device, so the owner's first one of the case is approved by hand.
func caseApproval(t *trial) {
	owner := t.newPerson(t.in.Owner(), "owner")
	owner.enter(nil).want(http.StatusOK)
	if owner.held().Device.State == wire.DevicePending {
		t.NotSeen("another case holds the first device of the owner")
	}
	p := t.member(owner)
	require.Equal(t, wire.DeviceActive, p.held().Device.State, "the first device")
	s := p.connect()
	second := t.newPerson(p.id, p.handle)
	require.Equal(t, wire.DevicePending, read[wire.TokenAnswer](second.enter(nil), http.StatusOK).Device.State)
	require.Equal(t, second.device, payload[wire.DeviceEvent](t, s.await("device.updated")).Device.ID, "the approval is asked for")
	second.get("/me").refused(code.DevicePending)
	second.get("/devices").refused(code.DevicePending)
	second.get("/devices/" + p.device).refused(code.DevicePending)
	require.Equal(t, wire.DevicePending, read[wire.Device](second.get("/devices/"+second.device), http.StatusOK).State)
	second.refresh().want(http.StatusOK)
	p.post("/devices/"+second.device+"/approve", object{}).want(http.StatusOK)
	require.Equal(t, wire.DeviceActive, read[wire.Device](second.get("/devices/"+second.device), http.StatusOK).State)
	second.connect().acknowledged()
}

func caseForeignDevice(t *trial) {
	owner := t.owner()
	p := t.member(owner)
	thief := t.member(owner)
	foreign := t.newPerson(thief.id, thief.handle)
	foreign.device = p.device
	foreign.enter(nil).refused(code.Forbidden)
	p.another().delete("/devices/" + p.device).want(http.StatusNoContent)
	again := t.newPerson(p.id, p.handle)
	again.device = p.device
	a := again.enter(nil)
	require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, a.status, "a revoked id stays refused: %s", a)
}

func caseNewKey(t *trial) {
	p := t.member(t.owner())
	s := p.connect()
	again := t.newPerson(p.id, p.handle)
	again.device = p.device
	again.enter(nil).want(http.StatusOK)
	s.closed(code.CloseRevoked)
	p.shutOut()
	again.get("/me").want(http.StatusOK)
}

func casePassword(t *trial) {
	p := t.member(t.owner())
	p.put("/me/password", object{"password": "correct horse"}).want(http.StatusNoContent)
	device := t.newPerson(p.id, p.handle)
	in := wire.TokenRequest{GrantType: wire.GrantPassword, Username: p.handle, Password: "correct horse", Device: device.named()}
	device.token(in).want(http.StatusOK)
	wrong, unknown := in, in
	wrong.Password, unknown.Username = "wrong", "nobody"+newID()
	refusedOne, refusedTwo := device.token(wrong).refused(code.InvalidCredentials), device.token(unknown).refused(code.InvalidCredentials)
	require.Equal(t, refusedOne.Detail, refusedTwo.Detail, "unknown names look the same")
	limited := 0
	for range 12 * len(t.in.Nodes()) { // failures are counted by each node
		if a := device.token(wrong); a.status == http.StatusTooManyRequests {
			require.Positive(t, a.refused(code.RateLimited).RetryAfter)
			limited++
		}
	}
	require.Positive(t, limited)
}

func caseStepUp(t *trial) {
	owner := t.owner()
	p := t.member(owner)
	target := wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: p.id},
		Target:  wire.Target{Kind: wire.TargetSpace, ID: read[wire.Space](owner.post("/spaces", wire.NewSpace{Name: "s " + newID()}), http.StatusCreated).ID},
		Level:   wire.LevelRead,
	}
	t.Eventually(patience, "the proof of who one is gets old", func() bool { return owner.post("/login-codes", object{}).status == http.StatusForbidden })
	owner.post("/grants", target).refused(code.StepUpRequired)
	owner.post("/groups", wire.NewGroup{Name: "g"}).refused(code.StepUpRequired)
	owner.refresh().want(http.StatusOK)
	owner.post("/grants", target).refused(code.StepUpRequired) // a refresh never moves auth_time
	sid := owner.held().SessionID
	owner.enter(func(in *wire.TokenRequest) { in.SessionID = sid }).want(http.StatusOK)
	require.Equal(t, sid, owner.held().SessionID)
	owner.post("/grants", target).want(http.StatusCreated)
	owner.post("/spaces", wire.NewSpace{Name: "needs none"}).want(http.StatusCreated)
}

func caseRotation(t *trial) {
	p := t.owner()
	kids := func(node string) int {
		a := p.exchangeAt(node, http.MethodGet, "/.well-known/jwks.json", nil, nil).want(http.StatusOK)
		return strings.Count(string(a.body), `"kid"`)
	}
	before := kids(t.in.Nodes()[0])
	require.NoError(t, t.in.operated().RotateKeys(t.Context()))
	for _, node := range t.in.Nodes() {
		t.Eventually(patience, "every node knows the new key", func() bool { return kids(node) > before })
	}
	p.get("/me").want(http.StatusOK)
	first, _, _ := strings.Cut(p.held().AccessToken, ".")
	p.refresh().want(http.StatusOK)
	second, _, _ := strings.Cut(p.held().AccessToken, ".")
	require.NotEqual(t, first, second, "another kid")
	for range 2 * len(t.in.Nodes()) {
		p.get("/me").want(http.StatusOK)
	}
}
