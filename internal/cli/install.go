package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cairnsync/cairn/internal/env"
)

// deviceID answers CAIRN_DEVICE, or else the id of this install, which the first run makes and keeps in
// the user's configuration folder. Runs that are first at the same time agree on one.
func (a *app) deviceID() (string, error) {
	if given := a.getenv(envDevice); given != "" {
		id, ok := env.ParseID(given)
		if !ok {
			return "", wrongUsage("%s must be a UUID", envDevice)
		}
		return id, nil
	}
	folder, err := a.configFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "device")
	id, err := readDevice(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if err := keepOnce(folder, path, a.env.RandomID()); err != nil {
		return "", fmt.Errorf("keep this install's device id: %w (%s can name one instead)", err, envDevice)
	}
	return readDevice(path)
}

// configFolder is os.UserConfigDir of the app's environment.
func (a *app) configFolder() (string, error) {
	for _, place := range configPlaces(runtime.GOOS) {
		if root := a.getenv(place.variable); root != "" {
			return filepath.Join(root, place.below, "cairn"), nil
		}
	}
	return "", wrongUsage("there is no home folder to keep this install's device id in: set %s to a UUID", envDevice)
}

type configPlace struct{ variable, below string }

func configPlaces(system string) []configPlace {
	switch system {
	case "windows":
		return []configPlace{{"AppData", ""}}
	case "darwin":
		return []configPlace{{"HOME", filepath.Join("Library", "Application Support")}}
	default:
		return []configPlace{{"XDG_CONFIG_HOME", ""}, {"HOME", ".config"}}
	}
}

func readDevice(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read this install's device id: %w", err)
	}
	id, ok := env.ParseID(strings.TrimSpace(string(content)))
	if !ok {
		return "", fmt.Errorf("%s holds no device id: remove it to get a new one", path)
	}
	return id, nil
}

// keepOnce writes a line to path unless somebody else was first. The file appears complete or not at all: it is written under
// another name and linked, which fails when the name is taken.
func keepOnce(folder, path, line string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	draft, err := os.CreateTemp(folder, filepath.Base(path)+"-*") // only its owner may read it
	if err != nil {
		return fmt.Errorf("write draft: %w", err)
	}
	defer func() { _ = os.Remove(draft.Name()) }() // a left-over draft harms nobody
	_, err = draft.WriteString(line + "\n")
	if err = errors.Join(err, draft.Close()); err != nil {
		return fmt.Errorf("write draft: %w", err)
	}
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("put it in place: %w", err)
	}
	return nil
}
