package guard_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/api/guard"
)

func TestWhereRequestsComeFrom(t *testing.T) {
	t.Parallel()
	peers := guard.NewPeers(slog.New(slog.DiscardHandler), []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")})
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"a client", "192.0.2.7:1", nil, "192.0.2.7"},
		{"a client that says that it is another", "192.0.2.7:1", []string{"198.51.100.1"}, "192.0.2.7"},
		{"a proxy on this machine", "127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy on this machine that says nothing", "[::1]:1", nil, "::1"},
		{"a trusted proxy", "10.1.2.3:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a trusted proxy of IPv6", "[2001:db8:1::5]:1", []string{"2001:db8:2::1"}, "2001:db8:2::1"},
		{"a trusted proxy, seen by a socket of both families", "[::ffff:10.1.2.3]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"what a client claims stands before what the proxy says", "10.1.2.3:1", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		{"two headers are one list", "10.1.2.3:1", []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		{"two proxies", "127.0.0.1:1", []string{"203.0.113.9, 198.51.100.1, 10.1.2.3"}, "198.51.100.1"},
		{"a proxy of somebody else", "10.1.2.3:1", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		{"only proxies", "10.1.2.3:1", []string{"10.1.2.4"}, "10.1.2.4"},
		{"a proxy that writes ports", "10.1.2.3:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"a proxy that writes nonsense", "10.1.2.3:1", []string{"unknown"}, "10.1.2.3"},
		{"no address", "@", []string{"198.51.100.1"}, "@"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
			require.Equal(t, c.want, peers.Address(r))
		})
	}
}

func TestAProxyThatIsNotTrustedIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	peers := guard.NewPeers(slog.New(slog.NewTextHandler(&log, nil)), nil)
	ask := func(peer string, forwarded ...string) {
		peers.Address(&http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": forwarded}})
	}
	ask("127.0.0.1:1", "198.51.100.1")
	ask("192.0.2.7:1")
	require.Empty(t, log.String())
	ask("192.0.2.7:1", "198.51.100.1")
	ask("192.0.2.8:1", "198.51.100.1")
	require.Equal(t, 1, strings.Count(log.String(), "http.trusted_proxies"))
	require.Contains(t, log.String(), "192.0.2.7")
}
