package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func newSessionPushes(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "pushes SESSION", Short: "List what became of the pushes about a session, newest first", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		pushes, err := c.Pushes(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(map[string]any{"pushes": pushes}, func() error {
			names := map[string]string{}
			if detail, err := c.GetSession(ctx, args[0]); err == nil { // without names the ids tell devices apart
				names = deviceNames(detail)
			}
			rows := make([][]string, len(pushes))
			for i, push := range pushes {
				rows[i] = pushRow(push, names[push.DeviceID])
			}
			return a.table("AT TYPE ABOUT DEVICE NAME STATE REASON ATTEMPTS", rows)
		})
	})
	return cmd
}

func pushRow(push wire.Push, name string) []string {
	about := "-"
	switch {
	case push.ControlID != nil:
		about = *push.ControlID
	case push.Seq != nil:
		about = fmt.Sprintf("event %d", *push.Seq)
	}
	reason := string(push.Reason)
	return []string{
		push.CreatedAt.String(), string(push.Type), about, push.DeviceID, orDash(&name), string(push.State), orDash(&reason),
		strconv.FormatInt(push.Attempts, 10),
	}
}

// notifyLevels are what `session notify` takes.
var notifyLevels = []string{string(wire.NotifyAll), string(wire.NotifyAsks), string(wire.NotifyNone)}

func newSessionNotify(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "notify SESSION " + strings.Join(notifyLevels, "|"), Short: "Choose what your devices are pushed about in a session", Args: fits,
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return notifyLevels, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		if !slices.Contains(notifyLevels, args[1]) {
			return wrongUsage("say one of %s, not %q", strings.Join(notifyLevels, ", "), args[1])
		}
		setting, err := c.SetNotify(ctx, args[0], wire.Notify(args[1]))
		if err != nil {
			return err
		}
		return a.show(setting, func() error {
			return a.say("%s", map[wire.Notify]string{
				wire.NotifyAll:  "your devices are pushed about asks and the ends of turns",
				wire.NotifyAsks: "your devices are pushed about asks only",
				wire.NotifyNone: "your devices are not pushed about this session",
			}[setting.Notify])
		})
	})
	return cmd
}
