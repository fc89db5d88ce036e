package sessions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// longestLine bounds one line of an event stream.
const longestLine = 64 << 20

// openSSE opens a stream that must be accepted.
func openSSE(u *caller, r *room, query string) *feed {
	f, ctx := newFeed(u.t, "SSE")
	response := u.requestSSE(ctx, r.path("/stream"+query), u.t.suite.client)
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		response.Body.Close() //nolint:errcheck // refused
		close(f.frames)
		require.Equal(u.t, http.StatusOK, response.StatusCode, "GET %s → %s", r.path("/stream"+query), rulebook.Shorten(string(body)))
	}
	f.readSSE(ctx, response.Body)
	return f
}

func (u *caller) requestSSE(ctx context.Context, path string, client *http.Client) *http.Response {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.t.suite.base+path, nil)
	require.NoError(u.t, err)
	u.dress(request.Header)
	request.Header.Set("Accept", "text/event-stream")
	response, err := client.Do(request)
	require.NoError(u.t, err, "GET %s", path)
	return response
}

// readSSE starts the reader of an event stream (WHATWG HTML, section 9.2.6).
func (f *feed) readSSE(ctx context.Context, body io.ReadCloser) {
	go func() {
		defer close(f.frames)
		defer body.Close() //nolint:errcheck // the stream has ended
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 64<<10), longestLine)
		lines.Split(streamLines())
		var building frame
		var hasData bool
		for lines.Scan() {
			line := lines.Bytes()
			switch {
			case len(line) == 0:
				if hasData {
					building.at = time.Now()
					f.deliver(ctx, building)
				}
				building, hasData = frame{}, false
			case line[0] == ':':
				f.deliver(ctx, frame{name: "comment", data: bytes.Clone(bytes.TrimPrefix(line[1:], []byte(" "))), at: time.Now()})
			default:
				hasData = building.field(line) || hasData
			}
		}
		f.end.err = lines.Err()
		if f.end.err == nil {
			f.end.err = io.EOF
		}
	}()
}

// field takes one line into the frame and reports whether it was data.
func (b *frame) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		b.name = string(value)
	case "id":
		b.id = string(value)
	case "data":
		if b.data != nil {
			b.data = append(b.data, '\n')
		}
		b.data = append(b.data, value...)
		if b.data == nil {
			b.data = []byte{}
		}
		return true
	}
	return false
}

func (f *feed) deliver(ctx context.Context, got frame) {
	if got.name == wire.FrameClosed {
		var body struct{ Code int }
		if decode(got.data, &body) == nil {
			f.end.code = body.Code
		}
	}
	select {
	case f.frames <- got:
	case <-ctx.Done():
	}
}

// streamLines splits at LF, CR LF and CR, without waiting for the byte after a CR.
func streamLines() bufio.SplitFunc {
	afterCR := false
	return func(data []byte, atEOF bool) (int, []byte, error) {
		skip := 0
		if afterCR && len(data) > 0 {
			afterCR = false
			if data[0] == '\n' {
				skip = 1
			}
		}
		if i := bytes.IndexAny(data[skip:], "\r\n"); i >= 0 {
			afterCR = data[skip+i] == '\r'
			return skip + i + 1, data[skip : skip+i], nil
		}
		if atEOF {
			return len(data), nil, io.EOF // an unfinished line is not a frame
		}
		return skip, nil, nil
	}
}

// refusedSSE asks for a stream that must be refused, and answers the refusal.
func (u *caller) refusedSSE(path string) *answer {
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	response := u.requestSSE(ctx, path, u.t.suite.client)
	defer response.Body.Close() //nolint:errcheck // read
	a := &answer{t: u.t, request: "GET " + path, status: response.StatusCode, header: response.Header}
	if response.StatusCode == http.StatusOK {
		a.failure = errors.New("the stream was accepted")
		return a
	}
	a.body, a.failure = io.ReadAll(response.Body)
	u.t.Remember(a.String())
	return a
}
