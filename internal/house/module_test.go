package house_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/cairnsync/cairn"

// unit is one package of the module as `go list -json` tells it.
type unit struct {
	Dir, ImportPath, Name, Doc string
	GoFiles, IgnoredGoFiles    []string
	TestGoFiles, XTestGoFiles  []string
	Imports                    []string
}

// name is the path inside the module.
func (u unit) name() string { return strings.TrimPrefix(u.ImportPath, module+"/") }

func (u unit) files(names ...[]string) []string {
	var paths []string
	for _, list := range names {
		for _, name := range list {
			paths = append(paths, filepath.Join(u.Dir, name))
		}
	}
	return paths
}

func (u unit) code() []string  { return u.files(u.GoFiles, u.IgnoredGoFiles) }
func (u unit) tests() []string { return u.files(u.TestGoFiles, u.XTestGoFiles) }

var listModule = sync.OnceValues(func() ([]unit, error) {
	list := exec.Command("go", "list", "-e", "-json", module+"/...")
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	var units []unit
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var u unit
		if err := decoder.Decode(&u); errors.Is(err, io.EOF) {
			return units, nil
		} else if err != nil {
			return nil, err
		}
		units = append(units, u)
	}
})

func packages(t *testing.T) []unit {
	t.Helper()
	units, err := listModule()
	require.NoError(t, err)
	require.NotEmpty(t, units)
	return units
}
