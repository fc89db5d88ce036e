package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func newGroup(a *app) *cobra.Command {
	return a.jsonFlag(group("group", "Make groups and choose their members", []func(*app) *cobra.Command{
		newGroupCreate, newGroupList, newGroupAdd, newGroupRemove,
	}, a))
}

func newGroupCreate(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "create NAME", Short: "Make a group", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		made, err := c.CreateGroup(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(made, func() error { return a.say("created group %s  %s", made.ID, made.Name) })
	})
	return cmd
}

func newGroupList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List groups with their members", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
		groups, err := client.All(ctx, maxNamed, c.Groups)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"groups": orEmpty(groups)}, func() error {
			handles, err := handlesOf(ctx, c)
			if err != nil {
				return err
			}
			rows := make([][]string, len(groups))
			for i, one := range groups {
				members := make([]string, len(one.Members))
				for k, member := range one.Members {
					members[k] = handles.of(member.PrincipalID)
				}
				rows[i] = []string{one.ID, one.Name, orDashes(strings.Join(members, " "))}
			}
			return a.table("GROUP NAME MEMBERS", rows, cut("MEMBERS", 16), shortIDs("GROUP", never))
		})
	})
	return cmd
}

func orDashes(text string) string { return orDash(&text) }

// handleBook knows how principals are called, by id.
type handleBook map[string]string

func handlesOf(ctx context.Context, c *client.Client) (handleBook, error) {
	all, err := people(ctx, c)
	if err != nil {
		return nil, err
	}
	book := handleBook{}
	for _, one := range all {
		book[one.ID] = "@" + one.Handle
	}
	return book, nil
}

// of answers a handle, or the id of somebody unknown.
func (b handleBook) of(id string) string {
	if handle := b[id]; handle != "" {
		return handle
	}
	return id
}

// ask looks one author up who is in no list, such as an imported one; who cannot be looked up is shown by id.
func (b handleBook) ask(ctx context.Context, c *client.Client, author wire.Author) {
	b[author.ID] = render.Short(author.ID)
	if found, err := c.Principal(ctx, author.Kind, author.ID); err == nil {
		b[author.ID] = found.DisplayName
	}
}

// expiry is the flag that says when something ends.
type expiry struct{ after time.Duration }

func (e *expiry) flag(cmd *cobra.Command) {
	cmd.Flags().Var(e, "expires", "end it after this `DURATION`, such as 24h or 30d")
}

// Set reads a duration; days are allowed as in the configuration.
func (e *expiry) Set(text string) error {
	const mostDays = 100_000
	if days, is := strings.CutSuffix(text, "d"); is {
		if n, err := strconv.ParseInt(days, 10, 32); err == nil && n >= 0 && n <= mostDays {
			e.after = time.Duration(n) * 24 * time.Hour
			return nil
		}
	}
	after, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("a duration is such as 24h or 30d")
	}
	e.after = after
	return nil
}

// String answers the duration as a flag shows its default.
func (e *expiry) String() string {
	if e.after == 0 {
		return ""
	}
	return e.after.String()
}

// Type names what the flag takes.
func (e *expiry) Type() string { return "duration" }

func (e *expiry) at(a *app) (*time.Time, error) {
	switch {
	case e.after < 0:
		return nil, wrongUsage("--expires is a duration such as 24h")
	case e.after == 0:
		return nil, nil //nolint:nilnil // it does not end
	default:
		at := a.env.Now().Add(e.after).UTC()
		return &at, nil
	}
}

func newGroupAdd(a *app) *cobra.Command {
	var ends expiry
	cmd := &cobra.Command{Use: "add GROUP WHO", Short: "Put somebody into a group", Args: fits}
	ends.flag(cmd)
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		at, err := ends.at(a)
		if err != nil {
			return err
		}
		into, who, err := membershipOf(ctx, c, args)
		if err != nil {
			return err
		}
		member, err := c.PutMember(ctx, into.ID, who.ID, wire.PutMember{ExpiresAt: at})
		if err != nil {
			return err
		}
		return a.show(member, func() error { return a.say("@%s is in %s", who.Handle, into.Name) })
	})
	return cmd
}

func newGroupRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "remove GROUP WHO", Short: "Take somebody out of a group", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		from, who, err := membershipOf(ctx, c, args)
		if err != nil {
			return err
		}
		if err := c.RemoveMember(ctx, from.ID, who.ID); err != nil {
			return err
		}
		return a.show(map[string]any{"removed": true, "group_id": from.ID, "principal_id": who.ID}, func() error {
			return a.say("@%s is not in %s any more", who.Handle, from.Name)
		})
	})
	return cmd
}

func membershipOf(ctx context.Context, c *client.Client, args []string) (wire.Group, wire.Principal, error) {
	found, err := aGroup(ctx, c, args[0])
	if err != nil {
		return wire.Group{}, wire.Principal{}, err
	}
	who, err := aPrincipal(ctx, c, args[1])
	return found, who, err
}

func newGrant(a *app) *cobra.Command {
	return a.jsonFlag(group("grant", "Give people and groups levels on spaces and channels, and take them back", []func(*app) *cobra.Command{
		newGrantAdd, newGrantList, newGrantRevoke,
	}, a))
}

// target are the flags that say what a grant is on.
type target struct {
	space, channel string
	instance       bool
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.space, "space", "", "on a `SPACE`, named by id or name")
	cmd.Flags().StringVar(&t.channel, "channel", "", "on a `CHANNEL` alone")
	cmd.Flags().BoolVar(&t.instance, "instance", false, "on everything")
}

// find answers the target that the flags name, and false for none.
func (t *target) find(ctx context.Context, c *client.Client) (wire.Target, bool, error) {
	given := 0
	for _, is := range []bool{t.space != "", t.channel != "", t.instance} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return wire.Target{}, false, wrongUsage("only one of --space, --channel and --instance")
	case t.space != "":
		space, err := aSpace(ctx, c, t.space)
		return wire.Target{Kind: wire.TargetSpace, ID: space.ID}, true, err
	case t.channel != "":
		channel, err := aChannel(ctx, c, t.channel)
		return wire.Target{Kind: wire.TargetChannel, ID: channel.ID}, true, err
	default:
		return wire.Target{Kind: wire.TargetInstance}, t.instance, nil
	}
}

var levels = []wire.Level{wire.LevelRead, wire.LevelWrite, wire.LevelTrigger, wire.LevelManage, wire.LevelOwner}

func newGrantAdd(a *app) *cobra.Command {
	var on target
	var ends expiry
	var toGroup bool
	cmd := &cobra.Command{
		Use: "add WHO LEVEL", Short: "Give somebody a level: read, write, trigger, manage or owner", Args: fits,
		Annotations: map[string]string{needs: "(--space SPACE | --channel CHANNEL | --instance)"},
	}
	cmd.Long = `Give a person a level on a space, on one channel, or on everything. Each level includes those before it:
read, write, trigger (make agents run), manage (settings, pins, messages of others, imports), owner (grants).
A channel is private when nobody has a level on its space: then it is granted per channel. With --group, WHO is a group.`
	on.flags(cmd)
	ends.flag(cmd)
	cmd.Flags().BoolVar(&toGroup, "group", false, "WHO is a group")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		made := wire.NewGrant{Level: wire.Level(args[1])}
		if made.Level.Rank() == 0 {
			return wrongUsage("LEVEL is read, write, trigger, manage or owner, not %q", args[1])
		}
		var err error
		if made.ExpiresAt, err = ends.at(a); err != nil {
			return err
		}
		var given bool
		if made.Target, given, err = on.find(ctx, c); err != nil {
			return err
		}
		if !given {
			return wrongUsage("say what it is on: --space, --channel or --instance")
		}
		if made.Subject, err = subject(ctx, c, args[0], toGroup); err != nil {
			return err
		}
		grant, err := c.CreateGrant(ctx, made)
		if err != nil {
			return err
		}
		return a.show(grant, func() error {
			return a.say("grant %s: %s has %s on %s", grant.ID, args[0], string(grant.Level), placesOf(ctx, c).target(grant.Target))
		})
	})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := make([]string, len(levels))
		for i, level := range levels {
			names[i] = string(level)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func subject(ctx context.Context, c *client.Client, ref string, isGroup bool) (wire.Subject, error) {
	if isGroup {
		found, err := aGroup(ctx, c, ref)
		return wire.Subject{Kind: wire.SubjectGroup, ID: found.ID}, err
	}
	who, err := aPrincipal(ctx, c, ref)
	return wire.Subject{Kind: wire.SubjectPrincipal, ID: who.ID}, err
}

func newGrantList(a *app) *cobra.Command {
	var on target
	cmd := &cobra.Command{Use: "list", Short: "List grants, on one target or all", Args: fits}
	on.flags(cmd)
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
		where, given, err := on.find(ctx, c)
		if err != nil {
			return err
		}
		if !given {
			where = wire.Target{}
		}
		grants, err := client.All(ctx, maxNamed, func(ctx context.Context, at client.Paging) (wire.Page[wire.Grant], error) {
			return c.Grants(ctx, where, at)
		})
		if err != nil {
			return err
		}
		return a.show(map[string]any{"grants": orEmpty(grants)}, func() error { return a.sayGrants(ctx, c, grants) })
	})
	return cmd
}

func (a *app) sayGrants(ctx context.Context, c *client.Client, grants []wire.Grant) error {
	handles, err := handlesOf(ctx, c)
	if err != nil {
		return err
	}
	places := placesOf(ctx, c)
	rows := make([][]string, len(grants))
	for i, grant := range grants {
		who := handles.of(grant.Subject.ID)
		if grant.Subject.Kind == wire.SubjectGroup {
			who = "group " + places.of(grant.Subject.ID)
		}
		rows[i] = []string{grant.ID, who, orDashes(string(grant.Level)), places.target(grant.Target), sinceOrDash(grant.ExpiresAt)}
	}
	return a.table("GRANT WHO LEVEL ON EXPIRES", rows, shortTimes("EXPIRES", a.env.Now()))
}

func newGrantRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke GRANT", Short: "End a grant at once, named by its id", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		id, is := env.ParseID(args[0])
		if !is {
			return wrongUsage("GRANT is an id; `cairn grant list` shows them")
		}
		grant, err := c.RevokeGrant(ctx, id)
		if err != nil {
			return err
		}
		return a.show(grant, func() error { return a.say("grant %s is revoked", grant.ID) })
	})
	return cmd
}
