// Package httpkit is what the clients of both surfaces do alike with HTTP: they check the address of a server, never carry
// a credential to another origin, build paths, write JSON, read how long to wait, and wait.
package httpkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Errors of requests that are no answers of the server.
var (
	// ErrForeignRedirect is a redirect to another origin, which would have carried the credential along.
	ErrForeignRedirect = errors.New("refused to follow a redirect to another origin")
	// ErrResponseTooLarge is an answer over the limit of its client.
	ErrResponseTooLarge = errors.New("answer is larger than the limit")
	// ErrEmptyReference is an empty reference or id, which would address another route.
	ErrEmptyReference = errors.New("reference is empty")
	// ErrNotSent marks a request that could not even be built: trying again cannot help.
	ErrNotSent = errors.New("request was not sent")
)

// NotSent is an error that is ErrNotSent too.
func NotSent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotSent, fmt.Errorf(format, args...))
}

// ParseBase reads the address of a server: http or https with a host, without user, query and fragment. Its errors do not
// repeat what they were given, which may hold a secret.
func ParseBase(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("parse base URL: not a URL")
	}
	switch {
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, errors.New("parse base URL: it must be http or https with a host")
	case base.User != nil, base.RawQuery != "", base.Fragment != "":
		return nil, errors.New("parse base URL: it must carry no user, query or fragment")
	}
	return base, nil
}

// Guarded answers a copy of given, or of the default client for nil, that never takes a request to another origin than
// base's: it ends with ErrForeignRedirect.
func Guarded(given *http.Client, base *url.URL) *http.Client {
	var copied http.Client
	if given != nil {
		copied = *given
	} else if shared, ok := http.DefaultTransport.(*http.Transport); ok {
		own := shared.Clone()
		own.MaxIdleConnsPerHost = 16
		copied.Transport = own
	}
	copied.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if !strings.EqualFold(next.URL.Scheme, base.Scheme) || !strings.EqualFold(next.URL.Host, base.Host) {
			return ErrForeignRedirect
		}
		if len(via) >= 5 {
			return errors.New("followed 5 redirects")
		}
		return nil
	}
	return &copied
}

// Path joins parts that are fixed already and escaped variables: every odd part is a variable. An empty one is
// ErrEmptyReference.
func Path(parts ...string) (string, error) {
	var built strings.Builder
	for i, part := range parts {
		if i%2 == 0 {
			built.WriteString(part)
			continue
		}
		if part == "" {
			return "", NotSent("build path %s…: %w", built.String(), ErrEmptyReference)
		}
		built.WriteString(Segment(part))
	}
	return built.String(), nil
}

// Segment makes any text one segment of a path (SS-REF-1). "." and ".." are spelled out, because everything between here
// and the server would resolve them.
func Segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// Encode writes JSON without touching <, > and & in opaque values (SS-OBJ-1).
func Encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

// Bare takes the URL, and with it the query, which may hold what somebody searched for, out of an error of net/http.
func Bare(err error) error {
	if wrapped, is := errors.AsType[*url.Error](err); is {
		return wrapped.Err
	}
	return err
}

// ParseWait reads a Retry-After, seconds or an HTTP date (RFC 9110 section 10.2.3), as a wait of at most limit; 0 when
// absent or senseless.
func ParseWait(text string, now time.Time, limit time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, limit)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(at.Sub(now), limit))
	}
	return 0
}

// Sleep waits, and reports false when ctx ended first.
func Sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
