package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func newSpace(a *app) *cobra.Command {
	return a.jsonFlag(group("space", "Make, rename and archive spaces", []func(*app) *cobra.Command{
		newSpaceCreate, newSpaceList, newSpaceRename, newSpaceArchive, newSpaceUnarchive,
	}, a))
}

func newSpaceCreate(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "create NAME", Short: "Make a space, which you then own", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		made, err := c.CreateSpace(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(made, func() error { return a.say("created space %s  %s", made.ID, made.Name) })
	})
	return cmd
}

func newSpaceList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the spaces you see", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
		spaces, err := client.All(ctx, maxNamed, c.Spaces)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"spaces": orEmpty(spaces)}, func() error {
			rows := make([][]string, len(spaces))
			for i, space := range spaces {
				rows[i] = []string{space.ID, space.Name, space.CreatedAt.Format(time.RFC3339), sinceOrDash(space.ArchivedAt)}
			}
			return a.table("SPACE NAME CREATED ARCHIVED", rows, shortTimes("CREATED", a.env.Now()), shortTimes("ARCHIVED", a.env.Now()), cut("NAME", 12))
		})
	})
	return cmd
}

// orEmpty makes no list an empty one, as JSON shows it.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func sinceOrDash(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

func newSpaceRename(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "rename SPACE NAME", Short: "Rename a space", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		space, err := aSpace(ctx, c, args[0])
		if err != nil {
			return err
		}
		space, err = c.PatchSpace(ctx, space.ID, wire.PatchSpace{Name: &args[1]}, space.Version)
		if err != nil {
			return err
		}
		return a.show(space, func() error { return a.say("space %s is called %s", space.ID, space.Name) })
	})
	return cmd
}

func newSpaceArchive(a *app) *cobra.Command {
	return a.spaceSwitch("archive", "Make a space read-only", (*client.Client).ArchiveSpace)
}

func newSpaceUnarchive(a *app) *cobra.Command {
	return a.spaceSwitch("unarchive", "Let people write in an archived space again", (*client.Client).UnarchiveSpace)
}

func (a *app) spaceSwitch(verb, short string, do func(*client.Client, context.Context, string) (wire.Space, error)) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " SPACE", Short: short, Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		space, err := aSpace(ctx, c, args[0])
		if err != nil {
			return err
		}
		if space, err = do(c, ctx, space.ID); err != nil {
			return err
		}
		return a.show(space, func() error { return a.say("space %s is %sd", space.Name, verb) })
	})
	return cmd
}

func newChannel(a *app) *cobra.Command {
	return a.jsonFlag(group("channel", "Make, change and archive channels", []func(*app) *cobra.Command{
		newChannelCreate, newChannelList, newChannelSet, newChannelArchive, newChannelUnarchive,
	}, a))
}

func newChannelCreate(a *app) *cobra.Command {
	made := wire.NewChannel{Kind: wire.ChannelText}
	var forum bool
	cmd := &cobra.Command{Use: "create SPACE NAME", Short: "Make a channel in a space", Args: fits}
	cmd.Flags().BoolVar(&forum, "forum", false, "one that has only posts, no main timeline")
	cmd.Flags().StringVar(&made.Topic, "topic", "", "`TEXT` below its name")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		space, err := aSpace(ctx, c, args[0])
		if err != nil {
			return err
		}
		if forum {
			made.Kind = wire.ChannelForum
		}
		made.SpaceID = space.ID
		if made.Name, err = freeName(ctx, c, space.ID, args[1], ""); err != nil {
			return err
		}
		channel, err := c.CreateChannel(ctx, made)
		if err != nil {
			return err
		}
		return a.show(channel, func() error { return a.say("created channel %s  %s/%s", channel.ID, space.Name, channel.Name) })
	})
	return cmd
}

func newChannelList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list [SPACE]", Short: "List the channels you see, of one space or of all", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		within := ""
		if len(args) > 0 {
			space, err := aSpace(ctx, c, args[0])
			if err != nil {
				return err
			}
			within = space.ID
		}
		channels, err := allChannels(ctx, c, within)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"channels": orEmpty(channels)}, func() error {
			places := placesOf(ctx, c)
			rows := make([][]string, len(channels))
			for i, channel := range channels {
				rows[i] = []string{
					channel.ID, places.of(channel.SpaceID), channel.Name, string(channel.Kind), orDash(&channel.Topic),
					yesNo(channel.ReadOnly), sinceOrDash(channel.ArchivedAt),
				}
			}
			return a.table("CHANNEL SPACE NAME KIND TOPIC READ-ONLY ARCHIVED", rows,
				cut("TOPIC", 16), shortTimes("ARCHIVED", a.env.Now()), drop("TOPIC"), cut("NAME", 12))
		})
	})
	return cmd
}

func newChannelSet(a *app) *cobra.Command {
	var name, topic string
	var readOnly bool
	cmd := &cobra.Command{Use: "set CHANNEL", Short: "Change a channel's name, topic, or whether it is read-only", Args: fits}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` to give it")
	cmd.Flags().StringVar(&topic, "topic", "", "`TEXT` below its name; an empty one takes it away")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "only those who manage it may write; --read-only=false lets everybody again")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		var change wire.PatchChannel
		if cmd.Flags().Changed("name") {
			change.Name = &name
		}
		switch {
		case !cmd.Flags().Changed("topic"):
		case topic == "":
			change.Clear = []string{"topic"}
		default:
			change.Topic = &topic
		}
		if cmd.Flags().Changed("read-only") {
			change.ReadOnly = &readOnly
		}
		if change.Name == nil && change.Topic == nil && change.Clear == nil && change.ReadOnly == nil {
			return wrongUsage("say what to change: --name, --topic or --read-only")
		}
		channel, err := aChannel(ctx, c, args[0])
		if err != nil {
			return err
		}
		if change.Name != nil {
			if name, err = freeName(ctx, c, channel.SpaceID, name, channel.ID); err != nil {
				return err
			}
		}
		if channel, err = c.PatchChannel(ctx, channel.ID, change, channel.Version); err != nil {
			return err
		}
		return a.show(channel, func() error { return a.say("channel %s has version %d", channel.Name, channel.Version) })
	})
	return cmd
}

func newChannelArchive(a *app) *cobra.Command {
	return a.channelSwitch("archive", "Make a channel read-only and put it away", (*client.Client).ArchiveChannel)
}

func newChannelUnarchive(a *app) *cobra.Command {
	return a.channelSwitch("unarchive", "Let people write in an archived channel again", (*client.Client).UnarchiveChannel)
}

func (a *app) channelSwitch(verb, short string, do func(*client.Client, context.Context, string) (wire.Channel, error)) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " CHANNEL", Short: short, Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		channel, err := aChannel(ctx, c, args[0])
		if err != nil {
			return err
		}
		if channel, err = do(c, ctx, channel.ID); err != nil {
			return err
		}
		return a.show(channel, func() error { return a.say("channel %s is %sd", channel.Name, verb) })
	})
	return cmd
}
