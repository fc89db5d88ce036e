// Package filelock keeps a second process away from something that only one may use.
//
// Contract. A lock is a file that is locked by the system for as long as it is open: it ends with the process, however
// that ends. Nothing blocks; it is safe for concurrent use.
package filelock

import (
	"errors"
	"os"
)

// ErrHeld is a lock that another process, or another holder in this one, has.
var ErrHeld = errors.New("the file is locked")

// Release gives a lock back; nil is none. The file stays: removing it would let two processes lock two files of one name.
func Release(file *os.File) {
	if file != nil {
		_ = file.Close()
	}
}
