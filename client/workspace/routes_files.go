package workspace

import (
	"context"
	"io"
	"net/http"

	"github.com/cairnsync/cairn/client/internal/httpkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// CreateFile announces an upload; PutFileContent brings the bytes.
func (c *Client) CreateFile(ctx context.Context, made wire.NewFile) (wire.File, error) {
	return write[wire.File](ctx, c, http.MethodPost, made, 0, "/files")
}

// File answers what is known of a file.
func (c *Client) File(ctx context.Context, id string) (wire.File, error) {
	return read[wire.File](ctx, c, nil, "/files/", id)
}

// DeleteFile deletes a file.
func (c *Client) DeleteFile(ctx context.Context, id string) error {
	return do(ctx, c, http.MethodDelete, nil, "/files/", id)
}

// PutFileContent uploads size bytes from the beginning of content, which is read anew for every attempt.
// Only ctx bounds how long it takes.
func (c *Client) PutFileContent(ctx context.Context, id, mimeType string, content io.ReaderAt, size int64) (wire.File, error) {
	var file wire.File
	err := c.streaming(ctx, http.MethodPut, id, func(request *http.Request) {
		request.Body = io.NopCloser(io.NewSectionReader(content, 0, size))
		request.ContentLength = size
		if size == 0 {
			request.Body = http.NoBody
		}
		request.Header.Set("Content-Type", mimeType)
	}, func(response *http.Response, made Call) error {
		defer func() { _ = response.Body.Close() }() // it was only read
		answer, err := c.read(response, made)
		if err != nil {
			return err
		}
		return decodeAnswer(answer, made, &file)
	})
	return file, err
}

// Upload announces a file and brings its bytes.
func (c *Client) Upload(ctx context.Context, name, mimeType string, content io.ReaderAt, size int64) (wire.File, error) {
	made, err := c.CreateFile(ctx, wire.NewFile{OriginalName: name, MimeType: mimeType, SizeBytes: size, Purpose: "attachment"})
	if err != nil {
		return made, err
	}
	return c.PutFileContent(ctx, made.ID, "application/octet-stream", content, size)
}

// Download opens the bytes of a file; the caller closes them. The server refuses while they are not
// scanned, and when they are infected.
func (c *Client) Download(ctx context.Context, id string) (io.ReadCloser, error) {
	var content io.ReadCloser
	err := c.streaming(ctx, http.MethodGet, id, func(*http.Request) {}, func(response *http.Response, _ Call) error {
		content = response.Body
		return nil
	})
	return content, err
}

// streaming makes a request about the content of a file, again when that may help and nothing was handed out.
func (c *Client) streaming(
	ctx context.Context, method, id string, prepare func(*http.Request), take func(*http.Response, Call) error,
) error {
	at, err := httpkit.Path("/files/", id, "/content")
	if err != nil {
		return err
	}
	made := Call{Method: method, Path: prefix + at}
	wait := backoff{base: requestBase, limit: requestCap}
	for tried, spent := 1, ""; ; tried++ {
		token, err := c.auth.token(ctx, spent)
		if err != nil {
			return err
		}
		err = c.streamOnce(ctx, made, token, prepare, take)
		if endsToken(err) {
			spent = token
		} else if err == nil || !worthRetry(err) {
			return err
		}
		if tried >= max(c.config.Attempts, 2) || !httpkit.Sleep(ctx, wait.next(waitOf(err))) {
			return err
		}
	}
}

func (c *Client) streamOnce(
	ctx context.Context, made Call, token string, prepare func(*http.Request), take func(*http.Response, Call) error,
) error {
	request, err := c.request(ctx, made)
	if err != nil {
		return err
	}
	prepare(request)
	if err := c.authorize(request.Header, made, token); err != nil {
		return err
	}
	response, err := c.send(c.stream, request, made) //nolint:bodyclose // take does, or who is handed the body
	if err != nil {
		return err
	}
	return take(response, made)
}
