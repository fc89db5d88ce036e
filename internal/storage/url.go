package storage

import (
	"context"
	"path/filepath"
	"strings"
)

// target is a parsed URL: which engine, and where.
type target struct {
	sqlitePath  string
	postgresURL string
}

func parseURL(url string) (target, error) {
	scheme, rest, found := strings.Cut(url, ":")
	switch {
	case found && scheme == "sqlite":
		return parseSQLitePath(rest)
	case found && (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return target{postgresURL: url}, nil
	default:
		return target{}, refuse(BadURL, nil, "the database URL must be sqlite:path/to/file.db or postgres://user@host/database")
	}
}

func parseSQLitePath(path string) (target, error) {
	path = strings.TrimPrefix(path, "//") // sqlite:///var/lib/x is what other programs write
	if path == "" || strings.HasPrefix(path, "file:") || strings.HasPrefix(path, ":") || strings.ContainsAny(path, "?\x00") {
		return target{}, refuse(BadURL, nil, "the database URL must name a file, for example sqlite:cairn.db")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return target{}, refuse(BadURL, err, "the path of the database cannot be resolved")
	}
	// One file has one name, so that its lock file has one name too.
	if resolved, err := filepath.EvalSymlinks(absolute); err == nil {
		absolute = resolved
	}
	return target{sqlitePath: absolute}, nil
}

func (t target) open(ctx context.Context, options Options) (engine, error) {
	if t.sqlitePath != "" {
		return openSQLite(ctx, t.sqlitePath, options)
	}
	return openPostgres(ctx, t.postgresURL, options)
}
