package dpop

import (
	"net/url"
	"strings"
)

// Target answers the form in which the address of a request is compared (RFC 9449 section 4.3, RFC 3986
// section 6.2.2 and 6.2.3): without query and fragment, scheme and host in lower case, without the
// scheme's own port, escapes in upper case and only where they are needed, dots resolved. It answers false
// for what is no absolute http or https URL.
func Target(address string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", false
	}
	scheme := strings.ToLower(u.Scheme)
	host := strings.ToLower(u.Host)
	switch scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	default:
		return "", false
	}
	path := normalEscapes(u.EscapedPath())
	if path == "" {
		path = "/"
	}
	return scheme + "://" + host + resolveDots(path), true
}

// resolveDots removes the segments . and .. of an absolute path.
func resolveDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var kept []string
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		last := i == len(segments)-1
		switch segment {
		case ".":
			if last {
				kept = append(kept, "")
			}
		case "..":
			if len(kept) > 1 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, segment)
		}
	}
	return strings.Join(kept, "/")
}

const upperHex = "0123456789ABCDEF"

// normalEscapes decodes escapes of unreserved characters and writes the others in upper case. The path was
// parsed before, so every escape is whole.
func normalEscapes(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			out.WriteByte(path[i])
			continue
		}
		value := unhex(path[i+1])<<4 | unhex(path[i+2])
		if unreserved(value) {
			out.WriteByte(value)
		} else {
			out.WriteByte('%')
			out.WriteByte(upperHex[value>>4])
			out.WriteByte(upperHex[value&15])
		}
		i += 2
	}
	return out.String()
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	default:
		return c - '0'
	}
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
