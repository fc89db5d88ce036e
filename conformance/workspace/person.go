package workspace

import (
	"crypto/ed25519"
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

const api = "/api/v1"

// person is somebody on one device. Its methods do not fail the case themselves where several goroutines may
// call; the checks of answer do.
type person struct {
	t      *trial
	id     string
	handle string
	device string
	key    ed25519.PrivateKey

	mu     sync.Mutex // guards what follows
	tokens wire.TokenAnswer
	nonces map[string]string // the newest nonce of each node
	turn   int               // counts what was sent, so that it is spread over the nodes
}

// newPerson is a device nobody is signed in on.
func (t *trial) newPerson(id, handle string) *person {
	return &person{t: t, id: id, handle: handle, device: uuid.NewString(), key: newKey(t), nonces: map[string]string{}}
}

// owner is the owner of the instance on a fresh device.
func (t *trial) owner() *person { return t.signIn(t.in.Owner(), "owner") }

// signIn signs somebody in on a fresh device.
func (t *trial) signIn(id, handle string) *person {
	p := t.newPerson(id, handle)
	p.enter(nil).want(http.StatusOK)
	return p
}

// enter signs the device in with a login code; change alters the request.
func (p *person) enter(change func(in *wire.TokenRequest)) *answer {
	code, err := p.t.in.LoginCode(p.t.Context(), p.id)
	require.NoError(p.t, err, "make a login code")
	in := wire.TokenRequest{GrantType: wire.GrantLoginCode, Code: code, Device: p.named()}
	if change != nil {
		change(&in)
	}
	return p.token(in)
}

// another is the same person on another device.
func (p *person) another() *person { return p.t.signIn(p.id, p.handle) }

func (p *person) named() *wire.DeviceRequest {
	return &wire.DeviceRequest{ID: p.device, Name: p.handle + "'s device", Platform: "test"}
}

// token asks for tokens and keeps them when they come.
func (p *person) token(in wire.TokenRequest) *answer {
	a := p.exchange(http.MethodPost, api+"/auth/token", in, p.prove(""))
	if a.status == http.StatusOK {
		p.mu.Lock()
		defer p.mu.Unlock()
		a.failure = decode(a.body, &p.tokens)
	}
	return a
}

func (p *person) refresh() *answer {
	return p.token(wire.TokenRequest{GrantType: wire.GrantRefreshToken, RefreshToken: p.held().RefreshToken})
}

// held answers the tokens.
func (p *person) held() wire.TokenAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens
}

// node answers the node whose turn it is.
func (p *person) node() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes := p.t.in.Nodes()
	p.turn++
	return nodes[p.turn%len(nodes)]
}

func (p *person) nonce(node string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nonces[node]
}

func (p *person) learn(node, nonce string) {
	if nonce == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nonces[node] = nonce
}

// prove dresses a request with a proof, and with the access token where there is one.
func (p *person) prove(token string) func(node string, r *http.Request) {
	return func(node string, r *http.Request) {
		if token != "" {
			r.Header.Set("Authorization", "DPoP "+token)
		}
		r.Header.Set(wire.HeaderDPoP, sign(p.key, proof{
			method: r.Method, url: node + r.URL.EscapedPath(), nonce: p.nonce(node), token: token,
		}))
	}
}

// member adds a person to the instance, without any access.
func (t *trial) member(owner *person) *person {
	handle := "p" + newID()[24:]
	var made wire.Principal
	owner.post("/users", wire.NewPrincipal{Handle: handle, DisplayName: "Person " + handle}).want(http.StatusCreated).into(&made)
	return t.signIn(made.ID, handle)
}

// shutOut waits until every node refuses the access token: a node that did not do it itself hears of a revocation
// a moment later.
func (p *person) shutOut() {
	for _, node := range p.t.in.Nodes() {
		p.t.Eventually(patience, "the token is refused", func() bool {
			a := p.exchangeAt(node, http.MethodGet, api+"/me", nil, p.prove(p.held().AccessToken))
			return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
		})
	}
}
