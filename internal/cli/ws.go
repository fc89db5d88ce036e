package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func newWS(a *app) *cobra.Command {
	return a.jsonFlag(group("ws", "Read, write and follow the workspace", []func(*app) *cobra.Command{
		newWSChannels, newWSThreads, newWSRead, newWSSearch, newWSSay, newWSPost, newWSTail, newWSImport,
	}, a))
}

func newWSChannels(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "channels", Short: "List the channels you see, with what is unread", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, _ []string) error {
		shot, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"spaces": shot.Spaces, "channels": shot.Channels, "read_states": shot.ReadStates}, func() error {
			spaces, unread := map[string]string{}, map[string]int64{}
			for _, space := range shot.Spaces {
				spaces[space.ID] = space.Name
			}
			for _, state := range shot.ReadStates {
				unread[state.ThreadID] = state.UnreadCount
			}
			rows := make([][]string, len(shot.Channels))
			for i, channel := range shot.Channels {
				kind := string(channel.Kind)
				if channel.ArchivedAt != nil {
					kind += ", archived"
				}
				rows[i] = []string{
					spaces[channel.SpaceID], "#" + channel.Name, kind, someOrDash(unread[channel.MainThreadID]),
					orDash(&channel.Topic), channel.ID,
				}
			}
			return a.table("SPACE CHANNEL KIND UNREAD TOPIC ID", rows, cut("TOPIC", 16), shortIDs("ID", never), drop("TOPIC"))
		})
	})
	return cmd
}

func someOrDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func newWSThreads(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "threads CHANNEL", Short: "List the threads or posts of a channel", Args: fits}
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		channel, err := aChannel(ctx, c, args[0])
		if err != nil {
			return err
		}
		threads, err := client.All(ctx, maxNamed, func(ctx context.Context, at client.Paging) (wire.Page[wire.Thread], error) {
			return c.Threads(ctx, channel.ID, at)
		})
		if err != nil {
			return err
		}
		return a.show(map[string]any{"threads": orEmpty(threads)}, func() error {
			rows := make([][]string, len(threads))
			for i, thread := range threads {
				rows[i] = []string{
					thread.ID, string(thread.Kind), orDash(&thread.Title), string(thread.State),
					strconv.FormatInt(thread.MessageCount, 10), thread.LastActivityAt.UTC().Format(time.RFC3339),
				}
			}
			return a.table("THREAD KIND TITLE STATE MESSAGES ACTIVE", rows, cut("TITLE", 16), shortTimes("ACTIVE", a.env.Now()))
		})
	})
	return cmd
}

// wsLines is how many messages are read when nobody says, and how many can be at once.
const (
	wsLines    = 50
	maxWSLines = 100
)

func newWSRead(a *app) *cobra.Command {
	part := client.Range{Limit: wsLines}
	var mark bool
	cmd := &cobra.Command{Use: "read THREAD", Short: "Print the last messages of a thread, named by its id or its channel", Args: fits}
	cmd.Flags().IntVarP(&part.Limit, "lines", "n", wsLines, "print `N` messages")
	cmd.Flags().Int64Var(&part.Before, "before", 0, "only messages before number `SEQ`")
	cmd.Flags().BoolVar(&mark, "mark", false, "count them as read from now on")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		if part.Limit < 1 || part.Limit > maxWSLines || part.Before < 0 {
			return wrongUsage("--lines is 1 to %d, --before is 0 or more", maxWSLines)
		}
		thread, err := aThread(ctx, c, args[0])
		if err != nil {
			return err
		}
		found, err := c.Messages(ctx, thread, part)
		if err != nil {
			return err
		}
		if err := a.show(found, func() error { return a.sayMessages(ctx, c, found.Messages) }); err != nil {
			return err
		}
		if !mark || len(found.Messages) == 0 {
			return nil
		}
		_, err = c.MarkRead(ctx, thread, found.Messages[len(found.Messages)-1].ThreadSeq)
		return err
	})
	return cmd
}

// searchFound is what --json says of a search.
type searchFound struct {
	Messages []wire.Message `json:"messages"`
}

func newWSSearch(a *app) *cobra.Command {
	limit := wsLines
	cmd := &cobra.Command{Use: "search WORDS...", Short: "Find messages that have all of the words (the last may be a beginning), the newest first", Args: fits}
	cmd.Flags().IntVarP(&limit, "lines", "n", wsLines, "print at most `N` messages")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		if limit < 1 || limit > maxWSLines {
			return wrongUsage("--lines is 1 to %d", maxWSLines)
		}
		page, err := c.Search(ctx, strings.Join(args, " "), client.Paging{Limit: limit})
		if err != nil {
			return err
		}
		return a.show(searchFound{orEmpty(page.Items)}, func() error {
			if err := a.sayFound(ctx, c, page.Items); err != nil || page.NextCursor == "" {
				return err
			}
			a.remark("there are more: ask for more lines, or for more words")
			return nil
		})
	})
	return cmd
}

// sayFound prints messages under the names of their channels and the ids of their threads.
func (a *app) sayFound(ctx context.Context, c *client.Client, messages []wire.Message) error {
	if len(messages) == 0 {
		a.remark("none")
		return nil
	}
	handles, err := handlesOf(ctx, c)
	if err != nil {
		return err
	}
	places := placesOf(ctx, c)
	for i, message := range messages {
		if i == 0 || messages[i-1].ThreadID != message.ThreadID {
			if err := a.say("%s  thread %s", places.of(message.ChannelID), message.ThreadID); err != nil {
				return err
			}
		}
		if err := a.sayMessage(ctx, c, handles, message); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sayMessages(ctx context.Context, c *client.Client, messages []wire.Message) error {
	if len(messages) == 0 {
		a.remark("none")
		return nil
	}
	handles, err := handlesOf(ctx, c)
	if err != nil {
		return err
	}
	for _, message := range messages {
		if err := a.sayMessage(ctx, c, handles, message); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sayMessage(ctx context.Context, c *client.Client, handles handleBook, message wire.Message) error {
	if handles[message.Author.ID] == "" {
		handles.ask(ctx, c, message.Author)
	}
	if _, err := fmt.Fprintln(a.out, a.wrapped(messageLine(message, handles))); err != nil {
		return &printError{err}
	}
	return nil
}

// messageLine is a message for people. Its later lines are indented: what somebody writes cannot look like a message of
// somebody else.
func messageLine(m wire.Message, handles handleBook) string {
	at := m.CreatedAt.In(time.Local).Format("2006-01-02 15:04") //nolint:gosmopolitan // people read it where they are
	said := strings.ReplaceAll(render.CleanLines(m.ContentMD), "\n", "\n"+strings.Repeat(" ", render.Indent))
	switch {
	case m.DeletedAt != nil:
		said = "(deleted)"
	case m.EditedAt != nil:
		said += " (edited)"
	}
	for _, reaction := range m.Reactions {
		said += fmt.Sprintf("  %s %d", render.Clean(reaction.Emoji), reaction.Count)
	}
	if m.Pinned {
		said += "  (pinned)"
	}
	return fmt.Sprintf("%5d  %s  %-10s %s", m.ThreadSeq, at, render.Clean(handles.of(m.Author.ID)), said)
}

// maxSaid bounds what is read from standard input; the server allows message.max_chars.
const maxSaid = 1 << 20

func newWSSay(a *app) *cobra.Command {
	var message wire.NewMessage
	cmd := &cobra.Command{Use: "say THREAD TEXT...", Short: "Send a message to a thread, named by its id or its channel; TEXT - reads standard input", Args: fits}
	cmd.Flags().StringVar(&message.ReplyToID, "reply-to", "", "`MESSAGE` that this answers, by its id")
	cmd.Flags().StringVar(&message.ClientMsgID, "id", "", "a `UUID` of version 7 of your own: sent again with it, the message is there once")
	cmd.RunE = a.signedIn(func(ctx context.Context, c *client.Client, args []string) error {
		var err error
		if message.ContentMD, err = a.textOf(args[1:]); err != nil {
			return err
		}
		if _, is := env.ParseID(message.ClientMsgID); message.ClientMsgID != "" && !is {
			return wrongUsage("--id is a UUID of version 7")
		}
		thread, err := aThread(ctx, c, args[0])
		if err != nil {
			return err
		}
		sent, err := c.SendMessage(ctx, thread, message)
		if err != nil {
			return whereArchived(ctx, c, thread, err)
		}
		return a.show(sent, func() error { return a.say("message %s is number %d of the thread", sent.ID, sent.ThreadSeq) })
	})
	return cmd
}
