package sessions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/cairnsync/cairn/client/internal/httpkit"
)

// openStream opens the SSE stream (SS-STR-1).
func (v *Viewer) openStream(ctx context.Context, watch *watchdog, at string, after int64) (source, error) {
	target := v.client.base + at + "?after=" + strconv.FormatInt(after, 10)
	if v.attentive() {
		target += "&attention=1" // nothing can be said on the stream itself
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, httpkit.NotSent("build request GET %s: %w", at, err)
	}
	v.client.identify(request.Header)
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Accept-Encoding", "identity") // a compressor in between would hold frames back
	started := time.Now()
	response, err := v.client.stream.Do(request)
	if err != nil {
		err = fmt.Errorf("open stream: %w", httpkit.Bare(err))
		v.client.trace(http.MethodGet, at, nil, started, err)
		return nil, err
	}
	err = acceptStream(response)
	v.client.trace(http.MethodGet, at, response, started, err)
	if err != nil {
		_ = response.Body.Close()
		return nil, fmt.Errorf("open stream: %w", err)
	}
	body := watchedReader{response.Body, watch}
	return &eventStream{body: response.Body, parser: newParser(body, v.options.MaxFrameBytes)}, nil
}

func acceptStream(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return refusal(response, body)
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil || kind != "text/event-stream" {
		return errors.New("answer is not an event stream")
	}
	return nil
}

// watchedReader lets the watchdog count while a read waits.
type watchedReader struct {
	io.Reader
	watch *watchdog
}

func (w watchedReader) Read(into []byte) (int, error) {
	w.watch.arm()
	defer w.watch.rest()
	return w.Reader.Read(into) //nolint:wrapcheck // a Reader's io.EOF must stay bare
}

type eventStream struct {
	body   io.Closer
	parser *parser
}

func (s *eventStream) next() (string, []byte, error) {
	name, data, err := s.parser.next()
	if errors.Is(err, io.EOF) {
		return "", nil, fmt.Errorf("read stream: server ended it: %w", io.EOF)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read stream: %w", err)
	}
	return name, data, nil
}

func (s *eventStream) close() { _ = s.body.Close() }

// parser reads text/event-stream (HTML Living Standard, section 9.2.6). Lines end with LF, CR or CR LF; comments,
// ids, retry and unknown fields are skipped; an event that the end of the stream cuts off is dropped.
type parser struct {
	reader *bufio.Reader
	limit  int    // bytes of one event, its line ends and comments not counted
	name   []byte // of the event being read
	data   []byte
	line   []byte
	some   bool // a data field was seen
	afterC bool // the last line ended with CR: an LF that follows belongs to it
	begun  bool // past the byte order mark
}

// newParser reads at most limit bytes for one line and one event.
func newParser(reader io.Reader, limit int) *parser {
	return &parser{reader: bufio.NewReaderSize(reader, 32<<10), limit: limit}
}

// next answers the next event that has data; the name is "message" when it has none. The data is good
// until the call after. It answers ErrFrameTooLarge past the limit, and io.EOF at the end.
func (p *parser) next() (string, []byte, error) {
	p.name, p.data, p.some = p.name[:0], p.data[:0], false
	for {
		line, err := p.readLine()
		if err != nil {
			return "", nil, err
		}
		if len(line) > 0 {
			if err := p.field(line); err != nil {
				return "", nil, err
			}
			continue
		}
		if p.some {
			return p.eventName(), bytes.TrimSuffix(p.data, []byte{'\n'}), nil
		}
		p.name = p.name[:0]
	}
}

func (p *parser) eventName() string {
	if len(p.name) == 0 {
		return "message"
	}
	return string(p.name)
}

func (p *parser) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "event":
		p.name = append(p.name[:0], value...)
	case "data":
		if len(p.data)+len(value)+1 > p.limit {
			return ErrFrameTooLarge
		}
		p.some = true
		p.data = append(append(p.data, value...), '\n')
	}
	return nil
}

// readLine answers the next line without its end. A line that the end of the stream cuts off is dropped.
func (p *parser) readLine() ([]byte, error) {
	p.line = p.line[:0]
	for {
		chunk, err := p.buffered()
		if err != nil {
			return nil, err
		}
		end := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if len(p.line)+len(part) > p.limit+len("data: ") {
			return nil, ErrFrameTooLarge
		}
		p.line = append(p.line, part...)
		if end < 0 {
			p.discard(len(chunk))
			continue
		}
		p.afterC = chunk[end] == '\r'
		p.discard(end + 1)
		return p.stripMark(p.line), nil
	}
}

// buffered answers at least one byte of what can be had without waiting for more than one read. It never
// waits for the LF after a CR: the event before it is complete.
func (p *parser) buffered() ([]byte, error) {
	for {
		if _, err := p.reader.Peek(1); err != nil {
			return nil, fmt.Errorf("await bytes: %w", err)
		}
		chunk, err := p.reader.Peek(p.reader.Buffered())
		if err != nil {
			return nil, fmt.Errorf("read bytes: %w", err)
		}
		if p.afterC {
			p.afterC = false
			if chunk[0] == '\n' {
				p.discard(1)
				continue
			}
		}
		return chunk, nil
	}
}

// discard drops bytes that were peeked at, so it cannot fail.
func (p *parser) discard(n int) { _, _ = p.reader.Discard(n) }

func (p *parser) stripMark(line []byte) []byte {
	if p.begun {
		return line
	}
	p.begun = true
	return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
}
