//go:build unix

package filelock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Take opens a file, made when it is not there, and locks it until it is closed or the process ends. It answers ErrHeld when
// somebody else has it.
func Take(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(ErrHeld, file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock file: %w", err), file.Close())
	}
	return file, nil
}
