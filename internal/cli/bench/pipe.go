package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// pipe is a connection that posts, with as little work as HTTP/1.1 allows, so that the load leaves
// the machine to the server.
type pipe struct {
	conn net.Conn
	in   *bufio.Reader
	head string // the headers that every request shares
	out  []byte
	want bool   // keep the next answer's body
	body []byte // it
}

func (s *site) dial(ctx context.Context, device string) (*pipe, error) {
	host := strings.TrimPrefix(s.hello, "http://")
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	head := " HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + s.key + "\r\nX-Codai-Device: " + device + "\r\n"
	return &pipe{conn: conn, in: bufio.NewReader(conn), head: head}, nil
}

func (p *pipe) close() { _ = p.conn.Close() } // nothing is waited for on it any more

// post sends a body and reads the answer, which must be a success.
func (p *pipe) post(path string, body []byte) error {
	p.out = append(p.out[:0], "POST "...)
	p.out = append(p.out, path...)
	p.out = append(p.out, p.head...)
	p.out = append(p.out, "Content-Length: "...)
	p.out = strconv.AppendInt(p.out, int64(len(body)), 10)
	p.out = append(append(p.out, "\r\n\r\n"...), body...)
	if _, err := p.conn.Write(p.out); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	return p.answer()
}

func (p *pipe) answer() error {
	status, length := "", 0
	for {
		line, err := p.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case status == "":
			status = string(line)
		case len(line) == 0:
			return p.finish(status, length)
		default:
			if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
				if length, err = strconv.Atoi(string(value)); err != nil {
					return fmt.Errorf("read answer: %w", err)
				}
			}
		}
	}
}

func (p *pipe) finish(status string, length int) error {
	if p.want && strings.HasPrefix(status, "HTTP/1.1 2") {
		p.body = make([]byte, length)
		_, err := io.ReadFull(p.in, p.body)
		return err
	}
	if strings.HasPrefix(status, "HTTP/1.1 2") {
		_, err := p.in.Discard(length)
		return err
	}
	body, err := io.ReadAll(io.LimitReader(p.in, int64(length)))
	return errors.Join(fmt.Errorf("%s: %s", status, body), err)
}
