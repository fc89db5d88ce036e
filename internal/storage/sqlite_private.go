package storage

import (
	"errors"
	"io/fs"
	"os"
)

// companions are the files that SQLite keeps beside a database with a write-ahead log. They hold content.
var companions = []string{"-wal", "-shm"}

// guardOpened is guardLog for a database that has a write-ahead log already. Another one is left alone: it
// may be somebody else's.
func guardOpened(path string) {
	if hasLog(path) {
		guardLog(path)
	}
}

// guardLog gives the companions the rights of their database. The driver would make them readable for
// everybody the umask allows, so they are made before it looks for them; an empty log is a log without
// commits. What cannot be done here SQLite cannot do either, and it says so.
func guardLog(path string) {
	database, err := os.Stat(path)
	if err != nil {
		return
	}
	rights := database.Mode().Perm()
	for _, companion := range companions {
		file, err := os.OpenFile(path+companion, os.O_CREATE|os.O_EXCL|os.O_RDWR, rights)
		if err == nil {
			_ = file.Close() // nothing was written
		} else if errors.Is(err, fs.ErrExist) {
			narrow(path+companion, rights)
		}
	}
}

// narrow takes rights away that others should not have had.
func narrow(path string, rights fs.FileMode) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&^rights != 0 {
		_ = os.Chmod(path, rights) // only its owner can; everybody else can use it as it is
	}
}

// hasLog reads the database's header: byte 18 is 2 with a write-ahead log (SQLite file format, section 1.3.3).
func hasLog(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was only read
	var version [1]byte
	_, err = file.ReadAt(version[:], 18)
	return err == nil && version[0] == 2
}
