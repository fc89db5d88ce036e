package files

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Scanner looks for what must not reach anybody. Scan reads content to its end and answers whether it is
// clean, and if not what was found; an error is no verdict: the file is scanned again later.
type Scanner interface {
	Scan(ctx context.Context, content io.Reader) (Verdict, error)
}

// Verdict is what a scanner found.
type Verdict struct {
	Clean bool
	Found string // the name of what was found; for the log
}

// Clamd scans with clamd (ClamAV), by its INSTREAM command. It is safe for concurrent use: each scan has a
// connection of its own.
type Clamd struct {
	// Address is host:port, or unix:/path of the socket (file.clamd_address).
	Address string
}

const (
	clamdDial  = 10 * time.Second
	clamdChunk = 64 << 10
	// clamdReply bounds what clamd answers: the name of a signature, or an error.
	clamdReply = 4 << 10
)

// Scan streams content to clamd. A content over clamd's StreamMaxLength is an error: nothing says that it
// is clean.
func (c Clamd) Scan(ctx context.Context, content io.Reader) (Verdict, error) {
	network, address := "tcp", c.Address
	if path, ok := strings.CutPrefix(c.Address, "unix:"); ok {
		network, address = "unix", path
	}
	dialer := net.Dialer{Timeout: clamdDial}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return Verdict{}, fmt.Errorf("reach clamd: %w", err)
	}
	defer func() { _ = conn.Close() }()
	release := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a context that ends must end a read that waits
	defer release()
	sending := stream(conn, content)
	reply, err := io.ReadAll(io.LimitReader(conn, clamdReply))
	switch {
	case ctx.Err() != nil:
		return Verdict{}, fmt.Errorf("scan with clamd: %w", ctx.Err())
	case errors.Is(sending, errContent):
		return Verdict{}, sending
	case len(reply) == 0:
		return Verdict{}, fmt.Errorf("read clamd's answer: %w", errors.Join(sending, err, io.ErrUnexpectedEOF))
	default: // clamd may answer, and hang up, before it has read everything
		return verdict(string(bytes.TrimRight(reply, "\x00\r\n ")))
	}
}

var errContent = errors.New("read content to scan")

// stream sends the command and the content in chunks, each after its length; a length of zero ends it.
func stream(conn io.Writer, content io.Reader) error {
	if _, err := io.WriteString(conn, "zINSTREAM\x00"); err != nil {
		return fmt.Errorf("send command: %w", err)
	}
	const head = 4
	chunk := make([]byte, head+clamdChunk)
	for {
		n, err := io.ReadFull(content, chunk[head:])
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return fmt.Errorf("%w: %w", errContent, err)
		}
		if n > 0 {
			binary.BigEndian.PutUint32(chunk, uint32(n))
			if _, err := conn.Write(chunk[:head+n]); err != nil {
				return fmt.Errorf("send content: %w", err)
			}
		}
		if ended {
			_, err := conn.Write(make([]byte, head))
			if err != nil {
				return fmt.Errorf("send end of content: %w", err)
			}
			return nil
		}
	}
}

// verdict reads "stream: OK", "stream: <name> FOUND" or "<why> ERROR".
func verdict(reply string) (Verdict, error) {
	result, ours := strings.CutPrefix(reply, "stream: ")
	switch name, found := strings.CutSuffix(result, " FOUND"); {
	case !ours:
		return Verdict{}, fmt.Errorf("clamd answered %q", reply)
	case result == "OK":
		return Verdict{Clean: true}, nil
	case found:
		return Verdict{Found: name}, nil
	default:
		return Verdict{}, fmt.Errorf("clamd answered %q", reply)
	}
}
