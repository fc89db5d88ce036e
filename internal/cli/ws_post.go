package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func newWSPost(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "post CHANNEL TITLE TEXT...", Short: "Write a post in a forum, or begin a thread in a channel; TEXT - reads standard input", Args: fits,
	}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		made := wire.NewThread{Title: args[1]}
		var err error
		if made.ContentMD, err = a.textOf(args[2:]); err != nil {
			return err
		}
		channel, err := aChannel(ctx, c, args[0])
		if err != nil {
			return err
		}
		started, err := c.StartThread(ctx, channel.ID, made)
		if err != nil {
			return channelArchived(ctx, c, channel, err)
		}
		return a.show(started, func() error {
			return a.say("%s %s  %s", string(started.Thread.Kind), started.Thread.ID, started.Thread.Title)
		})
	})
	return cmd
}

// textOf is the text of a message: the arguments, or for - standard input.
func (a *app) textOf(args []string) (string, error) {
	text := strings.Join(args, " ")
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(a.in, maxSaid))
		if err != nil {
			return "", fmt.Errorf("read standard input: %w", err)
		}
		text = strings.TrimRight(string(read), "\n")
	}
	if strings.TrimSpace(text) == "" {
		return "", wrongUsage("there is no text to send")
	}
	return text, nil
}

// whereArchived says of a refusal to write in a thread that its channel or space is archived, if that is so.
func whereArchived(ctx context.Context, c *client.Client, thread string, err error) error {
	if !client.IsCode(err, code.Forbidden) {
		return err
	}
	found, missing := c.Thread(ctx, thread)
	if missing != nil {
		return err
	}
	channel, missing := c.Channel(ctx, found.ChannelID)
	if missing != nil {
		return err
	}
	return channelArchived(ctx, c, channel, err)
}

// channelArchived is whereArchived of a channel.
func channelArchived(ctx context.Context, c *client.Client, channel wire.Channel, err error) error {
	if !client.IsCode(err, code.Forbidden) {
		return err
	}
	if channel.ArchivedAt != nil {
		return &hintedError{err, "Nobody writes in it until `cairn channel unarchive " + channel.ID + "`"}
	}
	if space, missing := c.Space(ctx, channel.SpaceID); missing == nil && space.ArchivedAt != nil {
		return &hintedError{err, "Nobody writes in it until `cairn space unarchive " + space.ID + "`"}
	}
	return err
}
