package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	longestFile     = 400
	longestFunction = 60
	longestMain     = 30
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func TestEveryPackageSaysWhatItPromises(t *testing.T) {
	t.Parallel()
	for _, u := range packages(t) {
		if len(u.code()) == 0 {
			continue
		}
		begin := "Package " + u.Name + " "
		if u.Name == "main" {
			begin = "Command " + filepath.Base(u.Dir) + " "
		}
		require.True(t, strings.HasPrefix(u.Doc, begin), "the doc comment of %s begins with %q", u.name(), begin)
	}
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	t.Parallel()
	for _, u := range packages(t) {
		for _, path := range u.code() {
			lines := strings.Count(read(t, path), "\n")
			if u.Name == "main" && strings.HasPrefix(u.name(), "cmd/") {
				require.LessOrEqual(t, lines, longestMain, path)
			}
			require.LessOrEqual(t, lines, longestFile, path)
			requireShortFunctions(t, path)
		}
	}
}

func requireShortFunctions(t *testing.T, path string) {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		length := positions.Position(function.End()).Line - positions.Position(function.Pos()).Line
		require.LessOrEqual(t, length, longestFunction, "%s in %s", function.Name.Name, path)
	}
}

// What makes tests slow, flaky or silent. The names are spelled in pieces so that this file is no hit.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	t.Parallel()
	never := regexp.MustCompile(`\btime\.` + `Sleep\(|\b[tb]\.` + `Skip(Now|f)?\(`)
	for _, u := range packages(t) {
		for _, path := range u.tests() {
			require.Empty(t, never.FindString(read(t, path)), path)
		}
	}
}
