package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
	"github.com/cairnsync/cairn/wire/code"
)

// membership is a sign-in to the Workspace surface of one server, on this install.
type membership struct {
	url    string
	folder string
	client *client.Client
	store  *localstore.Store
}

func (m *membership) close() error {
	m.client.Close()
	if err := m.store.Close(); err != nil {
		return fmt.Errorf("close local store: %w", err)
	}
	return nil
}

// workspaceFolder is where the sign-ins of this install are.
func (a *app) workspaceFolder() (string, error) {
	folder, err := a.configFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, "workspace"), nil
}

// workspaceURL is the server that workspace commands speak to: CAIRN_URL, else the one signed in to last.
func (a *app) workspaceURL() (string, error) {
	if url := a.getenv(envURL); url != "" {
		return strings.TrimRight(url, "/"), nil
	}
	folder, err := a.workspaceFolder()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(folder, "server"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return defaultURL, nil
	case err != nil:
		return "", fmt.Errorf("read which server was signed in to: %w", err)
	default:
		return strings.TrimSpace(string(text)), nil
	}
}

// rememberServer makes a server the one that workspace commands speak to.
func (a *app) rememberServer(url string) error {
	folder, err := a.workspaceFolder()
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(folder, "server-*")
	if err != nil {
		return fmt.Errorf("keep which server was signed in to: %w", err)
	}
	_, err = draft.WriteString(url + "\n")
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), filepath.Join(folder, "server"))
	}
	if err != nil {
		return fmt.Errorf("keep which server was signed in to: %w", errors.Join(err, os.Remove(draft.Name())))
	}
	return nil
}

// member opens the sign-in to a server; where there is none yet it makes room for one, if it is to.
func (a *app) member(server string, makes bool) (*membership, error) {
	if err := checkServer(server); err != nil {
		return nil, err
	}
	device, err := a.deviceID()
	if err != nil {
		return nil, err
	}
	root, err := a.workspaceFolder()
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256([]byte(server + "\n" + device))
	m := &membership{url: server, folder: filepath.Join(root, hex.EncodeToString(name[:8]))}
	if _, err := os.Stat(m.folder); !makes && errors.Is(err, fs.ErrNotExist) {
		return nil, &strangerError{server}
	}
	var keys client.FileKeys
	if m.store, keys, err = localstore.OpenIn(m.folder); err != nil {
		return nil, fmt.Errorf("open the sign-in to %s: %w", server, err)
	}
	m.client, err = client.New(client.Config{
		BaseURL: server, Device: client.Device{ID: device, Name: deviceName(), Platform: "cli"},
		Keys: keys, Tokens: m.store, Attempts: attempts,
	})
	if err != nil {
		return nil, errors.Join(wrongUsage("%v\nCheck %s.", err, envURL), m.store.Close())
	}
	return m, nil
}

// signedIn makes a command's RunE out of what it does as the person who is signed in.
func (a *app) signedIn(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.asMember(cmd.Context(), "", func(m *membership) error { return do(cmd.Context(), m.client, args) })
	}
}

// asMember opens the sign-in to a server, and explains what fails on the way there. "" is the one that commands speak to,
// where somebody has to be signed in.
func (a *app) asMember(ctx context.Context, url string, do func(*membership) error) (err error) {
	makes := url != ""
	if !makes {
		if url, err = a.workspaceURL(); err != nil {
			return err
		}
	}
	m, err := a.member(url, makes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	err = do(m)
	var printed *printError
	if err != nil && ctx.Err() == nil && !errors.As(err, &printed) && client.AsProblem(err) == nil && ofNetwork(err) {
		return &unreachableError{m.url, err}
	}
	if errors.Is(err, client.ErrSignedOut) && client.AsProblem(err) == nil {
		return &strangerError{m.url}
	}
	return err
}

// checkServer refuses what is no address of a server.
func checkServer(address string) error {
	if !strings.Contains(address, "://") {
		return wrongUsage("%q: http:// is missing: http://%s", address, address)
	}
	if err := client.CheckURL(address); err != nil {
		return wrongUsage("%v\nCheck %s.", err, envURL)
	}
	if at, err := url.Parse(address); err == nil && (strings.HasSuffix(at.Path, "/api/v1") || at.Path == "/v1") {
		return wrongUsage("name the server without the path to its API: %s", strings.TrimSuffix(strings.TrimSuffix(address, "/v1"), "/api"))
	}
	return nil
}

// strangerError is a command where nobody is signed in.
type strangerError struct{ url string }

// Error says how to sign in.
func (e *strangerError) Error() string {
	return fmt.Sprintf("nobody is signed in to %s here\nSign in first: `cairn auth login %s`", e.url, e.url)
}

// ofNetwork reports whether the network failed. A number of the operating system alone, as in what fails with a file, has
// the methods of a network error too and is none.
func ofNetwork(err error) bool {
	var network net.Error
	if !errors.As(err, &network) {
		return false
	}
	_, number := network.(syscall.Errno)
	return !number || errors.Is(err, syscall.ECONNREFUSED)
}

// explainProblem says what the Workspace surface refused.
func explainProblem(refused *client.Problem) string {
	said := refused.Detail
	if said == "" {
		said = refused.Title
	}
	said = strings.TrimSuffix(said, ".")
	for _, field := range refused.Errors {
		said += "\n  " + field.Pointer + ": " + field.Message
	}
	switch code.Code(refused.Code) {
	case "":
		return fmt.Sprintf("what answered is no cairn server with a workspace (HTTP %d)", refused.Status)
	case code.StepUpRequired:
		return "this needs a recent sign-in\nProve once more who you are: `cairn auth login`"
	case code.InvalidToken, code.TokenExpired:
		return "the sign-in is not good any more\nSign in again: `cairn auth login`"
	case code.InvalidCredentials:
		return "the sign-in has ended\nSign in again: `cairn auth login`"
	case code.DevicePending:
		return "this device waits for approval\n" +
			"On the server's machine `cairn user devices` lists it and `cairn user approve DEVICE` lets it in; one of your other devices may too."
	case code.InternalError, code.Unavailable:
		if refused.TraceID != "" {
			return fmt.Sprintf("%s (%s)\nThe server's log tells more under request %s.", said, refused.Code, refused.TraceID)
		}
		return fmt.Sprintf("%s (%s)", said, refused.Code)
	default:
		return said
	}
}

// explainGateway says why the gateway does not want to see this client again.
func explainGateway(closed *client.Closed) string {
	switch closed.Code {
	case code.CloseDeviceReplaced:
		return "another connection of this device took over: an install has one at a time"
	case code.CloseProtocolVersion:
		return "the server speaks another version of the protocol: update this program"
	case code.CloseNormal:
		return "the server ended the connection"
	default:
		return closed.Error()
	}
}
