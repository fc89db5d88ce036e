//go:build !unix

package conn

import (
	"errors"
	"net"
	"syscall"
)

// rawConn answers nil: sockets are read and written by waiting on this system.
func rawConn(net.Conn) syscall.RawConn { return nil }

func writeSocket(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

func readSocket(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
