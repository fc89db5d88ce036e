package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that is read, in bytes without its end. A longer one is skipped.
const MaxLine = 64 << 20

const (
	readBuffer = 64 << 10
	// keptBuffer is the largest buffer that is kept for the next line.
	keptBuffer = 4 << 20
)

// lineReader reads lines of at most max bytes.
type lineReader struct {
	in     *bufio.Reader
	max    int
	number int   // of the line that was read last, from 1
	read   int64 // bytes so far, line ends included
	buffer []byte
}

func newLineReader(in io.Reader, longest int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readBuffer), max: longest}
}

// next answers the next line without its end; it is good until the next call. length is its true length, which is
// greater than the line's when it was too long to be held. The last line may have no end. io.EOF is the end.
func (l *lineReader) next() (line []byte, length int64, err error) {
	if cap(l.buffer) > keptBuffer {
		l.buffer = nil
	}
	l.buffer = l.buffer[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		l.read += int64(len(piece))
		length += int64(len(piece))
		if len(l.buffer)+len(piece) <= l.max+2 { // with its end
			l.buffer = append(l.buffer, piece...)
		} else {
			l.buffer = l.buffer[:0]
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && length == 0:
			return nil, 0, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, 0, fmt.Errorf("read line %d: %w", l.number+1, err)
		}
		l.number++
		return l.trimmed(length)
	}
}

// trimmed takes the line's end, and a byte order mark of the first line, away.
func (l *lineReader) trimmed(length int64) ([]byte, int64, error) {
	if int64(len(l.buffer)) < length {
		return nil, length, nil
	}
	line := bytes.TrimRight(l.buffer, "\r\n")
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) > l.max {
		return nil, length, nil
	}
	return line, int64(len(line)), nil
}
