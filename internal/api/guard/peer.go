package guard

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// Peers knows from which address a request comes where proxies stand before the server.
type Peers struct {
	log     *slog.Logger
	trusted []netip.Prefix
	warned  sync.Once
}

// NewPeers makes Peers that believe what proxies of the networks say, besides those on this machine.
func NewPeers(log *slog.Logger, trusted []netip.Prefix) *Peers {
	return &Peers{log: log, trusted: trusted}
}

// Address answers where a request comes from, without the port. A trusted proxy says for whom it asks, in the
// last place of X-Forwarded-For; when that is a trusted proxy too, the place before counts. From anybody else
// the header means nothing; the first time somebody sends it, that is logged, because a proxy that is not
// trusted makes all its clients one.
func (p *Peers) Address(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address := canonical(peer.Addr())
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for ; p.trusts(address) && len(hops) > 0; hops = hops[:len(hops)-1] {
		client, ok := hop(hops[len(hops)-1])
		if !ok {
			break
		}
		address = client
	}
	if address == canonical(peer.Addr()) && !p.trusts(address) && r.Header.Get("X-Forwarded-For") != "" {
		p.warned.Do(func() {
			p.log.Warn("X-Forwarded-For comes from an address that is not trusted: if it is a proxy of yours, all its clients share one limit "+
				"of logins until http.trusted_proxies names it", "peer", address)
		})
	}
	return address.String()
}

func (p *Peers) trusts(address netip.Addr) bool {
	if address.IsLoopback() {
		return true
	}
	for _, network := range p.trusted {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// hop reads one place of X-Forwarded-For; some proxies write the port, too.
func hop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if address, err := netip.ParseAddr(text); err == nil {
		return canonical(address), true
	}
	withPort, err := netip.ParseAddrPort(text)
	return canonical(withPort.Addr()), err == nil
}

func canonical(address netip.Addr) netip.Addr { return address.Unmap().WithZone("") }
