package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// commands makes every command of the root. A new one is added here.
var commands = []func(*app) *cobra.Command{
	newServe,
	newDemo,
	newConfig,
	newVersion,
	newUser,
	newKey,
	newMigrate,
	newSession,
	newDispatch,
	newDevice,
	newOrg,
	newBench,
}

func newRoot(a *app) *cobra.Command {
	root := group("cairn", "Shared agent sessions on many devices", commands, a)
	root.Long = `cairn is the sync server that people, their devices and their AI agents share, and its client.

The client commands read CAIRN_URL (default ` + defaultURL + `), CAIRN_API_KEY, and CAIRN_DEVICE (an id
made once per install when unset). CAIRN_SHARE_TOKEN opens what a link share opens.`
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{message: err.Error(), command: cmd.CommandPath()}
	})
	return root
}

// group is a command that only has commands below it.
func group(use, short string, below []func(*app) *cobra.Command, a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				cmd.SetOut(a.errs)
				_ = cmd.Help() // what cannot be written there cannot be said at all
				return &usageError{message: "say which command"}
			}
			message := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				message += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return &usageError{message: message, command: cmd.CommandPath()}
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	for _, command := range below {
		cmd.AddCommand(command(a))
	}
	return cmd
}

// fits checks the arguments against the command's Use: WORD is needed, [WORD] is not, and after a last one
// that ends in "..." more may follow.
func fits(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	least := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
	}
	open := len(names) > 0 && strings.Contains(names[len(names)-1], "...")
	if len(args) >= least && (open || len(args) <= len(names)) && !slices.Contains(args[:min(least, len(args))], "") {
		return nil
	}
	call := cmd.CommandPath() + strings.TrimPrefix(cmd.Use, cmd.Name())
	return &usageError{message: "call it as `" + call + "`", command: cmd.CommandPath()}
}
