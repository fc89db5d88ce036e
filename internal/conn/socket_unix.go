//go:build unix

package conn

import (
	"errors"
	"net"
	"syscall"
)

// rawConn answers the socket of a plain TCP connection, or nil for any other.
func rawConn(c net.Conn) syscall.RawConn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil // a closed connection; the blocking path reports it
	}
	return raw
}

// writeSocket makes one write to a non-blocking socket. errWouldBlock comes with n = 0 only.
func writeSocket(fd uintptr, data []byte) (n int, err error) {
	n, err = retry(func() (int, error) { return syscall.Write(int(fd), data) })
	return n, err
}

// readSocket makes one read from a non-blocking socket; n = 0 without an error is the end.
func readSocket(fd uintptr, data []byte) (n int, err error) {
	return retry(func() (int, error) { return syscall.Read(int(fd), data) })
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return 0, errWouldBlock
		default:
			return 0, err
		}
	}
}
