package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func newAuth(a *app) *cobra.Command {
	return a.jsonFlag(group("auth", "Sign this install in to a workspace", []func(*app) *cobra.Command{
		newAuthLogin, newAuthStatus, newAuthLogout,
	}, a))
}

func newAuthLogin(a *app) *cobra.Command {
	var user, login string
	cmd := &cobra.Command{Use: "login [URL]", Short: "Sign in with a login code or a password", Args: fits}
	cmd.Long = `Sign this install in, as a device of yours. Without --user it asks for a login code, which ` + "`cairn user login-code NAME`" + `
makes on the server's machine; with --user for that person's password. Both are read from standard input when that is
no terminal. The key that proves this device, and the sign-in, are kept in the user's configuration folder.
Signing in again renews how recently you proved who you are, which some commands ask for.`
	cmd.Flags().StringVar(&user, "user", "", "`NAME` to sign in as, with a password")
	cmd.Flags().StringVar(&login, "code", "", "a login `CODE`, instead of being asked for it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if user != "" && login != "" {
			return wrongUsage("either --user or --code")
		}
		url, err := a.workspaceURL()
		if err != nil {
			return err
		}
		if len(args) > 0 {
			url = strings.TrimRight(args[0], "/")
		}
		return a.asMember(cmd.Context(), url, func(m *membership) error {
			with, err := a.credential(user, login)
			if err != nil {
				return err
			}
			return a.login(cmd.Context(), m, with, user != "")
		})
	}
	return cmd
}

// credential answers what somebody signs in with, asking for what was not given.
func (a *app) credential(user, login string) (client.Credential, error) {
	if login != "" {
		return client.LoginCode(login), nil
	}
	if user != "" {
		password, err := a.secret("Password: ")
		return client.Password(user, password), err
	}
	login, err := a.secret("Login code: ")
	return client.LoginCode(strings.TrimSpace(login)), err
}

// maxSecret bounds a line with a secret, in bytes.
const maxSecret = 4096

// secret reads a line that nobody else should see: without echo at a terminal.
func (a *app) secret(prompt string) (string, error) {
	if file, is := a.in.(*os.File); is && a.interactive {
		_, _ = fmt.Fprint(a.errs, prompt) // as remark
		text, err := term.ReadPassword(int(file.Fd()))
		a.remark("")
		if err != nil {
			return "", fmt.Errorf("read from the terminal: %w", err)
		}
		return nonEmpty(string(text))
	}
	lines := bufio.NewScanner(a.in)
	lines.Buffer(nil, maxSecret)
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
	}
	return nonEmpty(lines.Text())
}

func nonEmpty(text string) (string, error) {
	if text == "" {
		return "", wrongUsage("there is nothing on standard input")
	}
	return text, nil
}

func (a *app) login(ctx context.Context, m *membership, with client.Credential, byPassword bool) error {
	answer, err := signIn(ctx, m.client, with)
	if err != nil {
		return a.explainSignIn(err, byPassword)
	}
	if err := a.rememberServer(m.url); err != nil {
		return err
	}
	shown := signInShown{URL: m.url, Principal: answer.Principal, Device: answer.Device, SessionID: answer.SessionID}
	return a.show(shown, func() error {
		if answer.Device.State == wire.DevicePending {
			return a.say("signed in to %s as @%s; this device waits for approval: `cairn user approve %s` on the server's machine",
				m.url, answer.Principal.Handle, answer.Device.ID)
		}
		return a.say("signed in to %s as @%s", m.url, answer.Principal.Handle)
	})
}

// explainSignIn says what helps when a server lets nobody in.
func (a *app) explainSignIn(err error, byPassword bool) error {
	refused := client.AsProblem(err)
	switch {
	case refused == nil:
		return err
	case refused.Code == string(code.InvalidCredentials) && byPassword:
		return errors.New("the name or the password is not right\n" + //nolint:staticcheck // a sentence for people
			"`cairn user password NAME` on the server's machine sets a new one.")
	case refused.Code == string(code.InvalidCredentials):
		return errors.New("the code is not right\n" + //nolint:staticcheck // as above
			"A code works once, for ten minutes: `cairn user login-code NAME` makes one.")
	case refused.Code == string(code.Forbidden) && strings.Contains(refused.Detail, "registered to another account"):
		return &hintedError{err, "This install is a device of somebody else on that server. Be another device, now and in later commands:\n" +
			"  export " + envDevice + "=" + a.env.RandomID()}
	default:
		return err
	}
}

// signIn renews the sign-in there is, or makes one: for somebody else, and in place of one that has ended.
func signIn(ctx context.Context, c *client.Client, with client.Credential) (wire.TokenAnswer, error) {
	answer, err := c.StepUp(ctx, with)
	if err == nil || !errors.Is(err, client.ErrSignedOut) && client.AsProblem(err) == nil {
		return answer, err
	}
	return c.SignIn(ctx, with)
}

// signInShown is a sign-in without its secrets.
type signInShown struct {
	URL       string              `json:"url"`
	Principal wire.TokenPrincipal `json:"principal"`
	Device    wire.DeviceOfToken  `json:"device"`
	SessionID string              `json:"session_id"`
}

func newAuthStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show who is signed in here, and where", Args: fits}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		return a.asMember(ctx, "", func(m *membership) error {
			me, err := m.client.Me(ctx)
			if err != nil {
				return err
			}
			return a.show(map[string]any{"url": m.url, "me": me}, func() error {
				device := ""
				if me.Device != nil {
					device = fmt.Sprintf(" on %s (%s)", me.Device.Name, me.Device.State)
				}
				if err := a.say("%s  @%s%s", m.url, me.Principal.Handle, device); err != nil {
					return err
				}
				places := placesOf(ctx, m.client)
				for _, access := range me.Access {
					if err := a.say("  %-8s %s", string(access.Level), places.target(wire.Target{Kind: access.Kind, ID: access.ID})); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return cmd
}

func newAuthLogout(a *app) *cobra.Command {
	var local bool
	cmd := &cobra.Command{Use: "logout", Short: "End the sign-in of this install", Args: fits}
	cmd.Flags().BoolVar(&local, "local", false, "only forget it here, when the server cannot be reached")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx := cmd.Context()
		out := func(url string) error {
			return a.show(map[string]any{"signed_out": true, "url": url}, func() error { return a.say("signed out of %s", url) })
		}
		err := a.asMember(ctx, "", func(m *membership) error {
			if local {
				if err := m.client.Forget(ctx); err != nil {
					return err
				}
			} else if err := m.client.Logout(ctx); err != nil && !errors.Is(err, client.ErrSignedOut) {
				return err
			}
			return out(m.url)
		})
		if stranger, is := errors.AsType[*strangerError](err); is {
			return out(stranger.url)
		}
		return err
	}
	return cmd
}
