package acp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the longest line of an agent, with its newline: what the SDK takes too.
const maxLine = 10 << 20

// errLong is a line over maxLine.
var errLong = errors.New("line is longer than 10 MiB")

// lines reads lines of bounded length.
type lines struct {
	reader *bufio.Reader
	long   []byte // a line that did not fit into the reader's buffer; kept to be used again
}

func newLines(from io.Reader) *lines { return &lines{reader: bufio.NewReaderSize(from, 64<<10)} }

// next answers the next line that is not blank, without its newline and valid until the next call. At the end
// it answers io.EOF, with a last line that has no newline if there is one. errLong comes with the beginning.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		line = bytes.TrimSpace(line)
		if err != nil || len(line) > 0 {
			return line, err
		}
	}
}

func (l *lines) line() ([]byte, error) {
	piece, err := l.reader.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return piece, err //nolint:wrapcheck // io.EOF is answered as it is
	}
	if cap(l.long) > 1<<20 {
		l.long = nil // one long line is no reason to hold its memory for good
	}
	l.long = l.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(l.long)+len(piece) > maxLine {
			return l.long, errLong
		}
		l.long = append(l.long, piece...)
		piece, err = l.reader.ReadSlice('\n')
	}
	if len(l.long)+len(piece) > maxLine {
		return l.long, errLong
	}
	l.long = append(l.long, piece...)
	return l.long, err //nolint:wrapcheck // as above
}
