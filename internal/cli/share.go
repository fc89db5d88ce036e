package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// shareFlags are whom a share is for and what it allows.
type shareFlags struct {
	user, email, org, role, expires string
	link                            bool
}

func newShare(a *app) *cobra.Command {
	var flags shareFlags
	cmd := &cobra.Command{Use: "share SESSION", Short: "Share a session with a user, an organisation or by a link", Args: fits}
	cmd.Flags().StringVar(&flags.user, "user", "", "`ID` of a user")
	cmd.Flags().StringVar(&flags.email, "email", "", "`ADDRESS` of a user")
	cmd.Flags().StringVar(&flags.org, "org", "", "`ID` of an organisation")
	cmd.Flags().BoolVar(&flags.link, "link", false, "whoever has the link's token; it is shown once")
	cmd.Flags().StringVar(&flags.role, "role", string(wire.RoleViewer), "`ROLE`: viewer, editor or owner")
	cmd.Flags().StringVar(&flags.expires, "expires", "", "when it ends: a duration such as 24h, or a `TIME` as of RFC 3339")
	completeWith(cmd, "role", string(wire.RoleViewer), string(wire.RoleEditor), string(wire.RoleOwner))
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		wanted, err := flags.share(a.env.Now())
		if err != nil {
			return err
		}
		share, err := c.AddShare(ctx, args[0], wanted)
		if err != nil {
			return err
		}
		return a.show(share, func() error {
			if share.Token != "" {
				return a.say("share %s for whoever has the token: %s\nIt is not shown again. %s=… opens the session with it.",
					share.ID, share.Token, envShareToken)
			}
			return a.say("share %s for %s %s as %s", share.ID, string(share.PrincipalType), orDash(share.PrincipalID), string(share.Role))
		})
	})
	return cmd
}

// share answers the share the flags ask for; exactly one principal must be named.
func (f shareFlags) share(now time.Time) (client.NewShare, error) {
	share := client.NewShare{Role: wire.Role(f.role)}
	named := 0
	for _, principal := range []struct {
		given bool
		set   func()
	}{
		{f.user != "", func() { share.PrincipalType, share.PrincipalID = wire.PrincipalUser, f.user }},
		{f.email != "", func() { share.PrincipalType, share.Email = wire.PrincipalUser, f.email }},
		{f.org != "", func() { share.PrincipalType, share.PrincipalID = wire.PrincipalOrg, f.org }},
		{f.link, func() { share.PrincipalType = wire.PrincipalLink }},
	} {
		if principal.given {
			named++
			principal.set()
		}
	}
	if named != 1 {
		return share, wrongUsage("give exactly one of --user, --email, --org and --link")
	}
	if share.Role.Rank() == 0 {
		return share, wrongUsage("--role is viewer, editor or owner")
	}
	ends, err := parseEnd(f.expires, now)
	share.ExpiresAt = ends
	return share, err
}

// parseEnd reads a duration from now, or a time; nil when text is empty.
func parseEnd(text string, now time.Time) (*wire.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no end is no error
	}
	if length, err := time.ParseDuration(text); err == nil && length > 0 {
		return &wire.Time{Time: now.Add(length)}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, wrongUsage("--expires is a duration such as 24h, or a time such as 2026-09-13T10:00:00Z")
	}
	return &wire.Time{Time: at}, nil
}

func newShares(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "shares SESSION", Short: "List a session's shares", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		shares, err := c.Shares(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(map[string]any{"shares": shares}, func() error {
			rows := make([][]string, len(shares))
			for i, share := range shares {
				ends := "never"
				if share.ExpiresAt != nil {
					ends = share.ExpiresAt.String()
				}
				rows[i] = []string{share.ID, string(share.PrincipalType), orDash(share.PrincipalID), string(share.Role), ends}
			}
			return a.table("SHARE FOR ID ROLE ENDS", rows)
		})
	})
	return cmd
}

func newUnshare(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "unshare SESSION SHARE", Short: "End a share", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		removed, err := c.RemoveShare(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		return a.show(removed, func() error { return a.say("share %s has ended", removed.ID) })
	})
	return cmd
}

// completeWith offers values for a flag.
func completeWith(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
