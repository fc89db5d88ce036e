package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
)

// stateFolder is where this install keeps what it is in the middle of: a folder that no other machine should share.
func (a *app) stateFolder() (string, error) {
	for _, place := range statePlaces(runtime.GOOS) {
		if root := a.getenv(place.variable); root != "" {
			return filepath.Join(root, place.below, "cairn"), nil
		}
	}
	return "", wrongUsage("there is no home folder to keep unsent events in: set XDG_STATE_HOME")
}

func statePlaces(system string) []configPlace {
	switch system {
	case "windows":
		return []configPlace{{"LocalAppData", ""}}
	case "darwin":
		return []configPlace{{"XDG_STATE_HOME", ""}, {"HOME", filepath.Join("Library", "Application Support")}}
	default:
		return []configPlace{{"XDG_STATE_HOME", ""}, {"HOME", filepath.Join(".local", "state")}}
	}
}

// sessionFolder is where this device keeps what belongs to one session on one server.
func (a *app) sessionFolder(c *client.Client, sessionID string) (string, error) {
	folder, err := a.stateFolder()
	if err != nil {
		return "", err
	}
	name := sha256.Sum256([]byte(strings.TrimRight(a.baseURL(), "/") + "\n" + c.DeviceID() + "\n" + sessionID))
	return filepath.Join(folder, "run", hex.EncodeToString(name[:12])), nil
}

// sessionLock answers what keeps every other executor of this device away from a session: the server cannot tell them apart.
// Without a folder for it there can be none.
func (a *app) sessionLock(c *client.Client) func(sessionID string) (func(), error) {
	if _, err := a.stateFolder(); err != nil {
		return nil
	}
	return func(sessionID string) (func(), error) {
		folder, err := a.sessionFolder(c, sessionID)
		if err != nil {
			return nil, err
		}
		return agentrun.Lock(folder)
	}
}

// identity answers this install's age secret, which the first call makes and keeps in the user's configuration folder.
func (a *app) identity() (string, error) {
	path, err := a.identityPath()
	if err != nil {
		return "", err
	}
	secret, err := readIdentity(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	made, err := client.NewIdentity()
	if err != nil {
		return "", err
	}
	if err := keepOnce(filepath.Dir(path), path, made.Secret); err != nil {
		return "", fmt.Errorf("keep this install's identity: %w", err)
	}
	return readIdentity(path)
}

// knownIdentity answers this install's age secret, or "" when none was made.
func (a *app) knownIdentity() (string, error) {
	path, err := a.identityPath()
	if err != nil {
		return "", nil //nolint:nilerr // without a home there is none
	}
	secret, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return secret, err
}

func (a *app) identityPath() (string, error) {
	folder, err := a.configFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "identity"), nil
}

func readIdentity(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read this install's identity: %w", err)
	}
	secret := strings.TrimSpace(string(content))
	if _, err := client.RecipientOf(secret); err != nil {
		return "", fmt.Errorf("%s holds no identity: %w", path, err)
	}
	return secret, nil
}

// publish makes this device a reader of sealed sessions.
func (a *app) publish(ctx context.Context, c *client.Client, secret string) error {
	recipient, err := client.RecipientOf(secret)
	if err != nil {
		return err
	}
	devices, err := c.Devices(ctx)
	if err != nil {
		return err
	}
	for _, device := range devices {
		for _, capability := range device.Capabilities {
			if capability == recipient && strings.EqualFold(device.ID, c.DeviceID()) {
				return nil
			}
		}
	}
	_, err = c.PublishRecipient(ctx, recipient)
	return err
}
