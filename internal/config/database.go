package config

import (
	"net/url"
	"strings"
)

const hidden = "xxxxx"

func database(at func(*Config) *string) kind {
	k := checked(at, "sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME", func(text string) bool {
		if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
			return path != ""
		}
		u, err := url.Parse(text)
		return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
	})
	k.redact = RedactDatabase
	k.hint = func(text string) string {
		if barePath(text) {
			return "write sqlite:" + text
		}
		return ""
	}
	return k
}

// barePath is true for what can only be the path of a file: it holds nothing that could part a password from a name.
func barePath(text string) bool {
	return strings.ContainsAny(text, "/.") && !strings.ContainsAny(text, ":@= \t\r\n\x00")
}

// RedactDatabase answers a database URL without its passwords, to be shown or logged. Text that is no
// URL is not shown at all, because nobody can tell where its password stands.
func RedactDatabase(text string) string {
	if strings.HasPrefix(text, "sqlite:") || barePath(text) {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "(not shown)"
	}
	if _, set := u.User.Password(); set {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "pass") {
			query.Set(name, hidden)
		}
	}
	if len(query) > 0 {
		u.RawQuery = query.Encode()
	}
	return u.String()
}
