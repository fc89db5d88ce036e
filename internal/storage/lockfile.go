package storage

import (
	"errors"
	"os"
)

// errFileLocked: another process, or another database of this one, holds the lock.
var errFileLocked = errors.New("the file is locked")

// unlockFile gives a lock back. The file stays: removing it would let two processes lock two files of
// one name.
func unlockFile(file *os.File) {
	if file != nil {
		_ = file.Close()
	}
}
