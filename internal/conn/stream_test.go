package conn

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// narrow makes the socket buffers between s and p as small as the system lets.
func narrow(t testing.TB, s *Stream, p *peer) {
	t.Helper()
	require.NoError(t, s.conn.(*net.TCPConn).SetWriteBuffer(1))
	require.NoError(t, p.Conn.(*net.TCPConn).SetReadBuffer(1))
}

// hugeFrame is more than the socket buffers of both ends take.
const hugeFrame = 24 << 20
