package cli

import (
	"context"
	"slices"
	"strings"
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
	cmd.Annotations = map[string]string{needs: "(--user ID | --email ADDRESS | --org ID | --link)"}
	cmd.Long = `Share a session with a user, an organisation, or whoever has a link's token.

Shares add up: who has several has the highest role. To lower one, end it with "cairn session unshare" and share anew.
Who gets a token sets CAIRN_SHARE_TOKEN to it, beside a CAIRN_API_KEY of their own, and names the session by its id.`
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
			return flags.named(err)
		}
		err = a.show(share, func() error { return a.sayShare(share) })
		if err == nil {
			a.warnOfHigher(ctx, c, share)
		}
		return err
	})
	return cmd
}

func (a *app) sayShare(share wire.Share) error {
	if share.Token == "" {
		return a.say("share %s for %s %s as %s", share.ID, string(share.PrincipalType), orDash(share.PrincipalID), string(share.Role))
	}
	return a.say("share %s for whoever has the token, as %s\nThe token is not shown again. With a key of their own, they type:\n"+
		"export %s=%s\ncairn attach %s\nor, without a terminal to draw on, cairn session tail -f %s",
		share.ID, string(share.Role), envShareToken, share.Token, share.SessionID, share.SessionID)
}

// warnOfHigher says when an earlier share gives the same user or organisation more: roles add up, so this one
// lowers nothing. What cannot be read is no failure: the share is made.
func (a *app) warnOfHigher(ctx context.Context, c *client.Client, made wire.Share) {
	if made.PrincipalID == nil {
		return
	}
	shares, err := c.Shares(ctx, made.SessionID)
	if err != nil {
		return
	}
	for _, other := range shares {
		if other.ID == made.ID || other.PrincipalID == nil || *other.PrincipalID != *made.PrincipalID ||
			other.PrincipalType != made.PrincipalType || other.Role.Rank() <= made.Role.Rank() || a.ended(other) {
			continue
		}
		a.remark("still " + string(other.Role) + " through share " + other.ID + ": `cairn session unshare " + made.SessionID + " " +
			other.ID + "` lowers it")
	}
}

func (a *app) ended(share wire.Share) bool {
	return share.ExpiresAt != nil && !share.ExpiresAt.After(a.env.Now())
}

// named says which flag was wrong instead of which field of the request.
func (f shareFlags) named(err error) error {
	refused := client.AsAPIError(err)
	if refused == nil {
		return err
	}
	flag := map[string]string{"email": "--email " + f.email, "principal_id": "--user " + f.user, "expires_at": "--expires " + f.expires}
	if f.org != "" {
		flag["principal_id"] = "--org " + f.org
	}
	for field, problems := range refused.FieldErrors().FieldErrors {
		if name, ok := flag[field]; ok && len(problems) > 0 {
			return &flagRefusedError{name + ": " + strings.Join(problems, ", "), err}
		}
	}
	return err
}

// flagRefusedError is a refusal of what a flag said.
type flagRefusedError struct {
	message string
	cause   error
}

// Error answers which flag was wrong, and why.
func (e *flagRefusedError) Error() string { return e.message }

// Unwrap answers the refusal.
func (e *flagRefusedError) Unwrap() error { return e.cause }

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
			names := orgNames(ctx, c, shares)
			rows := make([][]string, len(shares))
			for i, share := range shares {
				ends := "never"
				switch {
				case a.ended(share):
					ends = "ended " + share.ExpiresAt.String()
				case share.ExpiresAt != nil:
					ends = share.ExpiresAt.String()
				}
				rows[i] = []string{share.ID, string(share.PrincipalType), names.principal(share), string(share.Role), ends}
			}
			return a.table("SHARE FOR ID ROLE ENDS", rows)
		})
	})
	return cmd
}

// namesOfOrgs are the names of the caller's organisations by id.
type namesOfOrgs map[string]string

// orgNames asks for names when a share is for an organisation. Ids do where they cannot be read.
func orgNames(ctx context.Context, c *client.Client, shares []wire.Share) namesOfOrgs {
	if !slices.ContainsFunc(shares, func(s wire.Share) bool { return s.PrincipalType == wire.PrincipalOrg }) {
		return nil
	}
	orgs, err := c.Orgs(ctx)
	if err != nil {
		return nil
	}
	names := namesOfOrgs{}
	for _, org := range orgs {
		names[org.ID] = org.Name
	}
	return names
}

// principal answers whom a share is for.
func (n namesOfOrgs) principal(share wire.Share) string {
	id := orDash(share.PrincipalID)
	if name := n[id]; name != "" && share.PrincipalType == wire.PrincipalOrg {
		return id + " (" + name + ")"
	}
	return id
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
