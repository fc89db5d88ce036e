package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	newAttach,
	newDispatch,
	newRun,
	newAgent,
	newImport,
	newDevice,
	newOrg,
	newBench,
	newAuth,
	newSpace,
	newChannel,
	newGrant,
	newGroup,
	newWS,
	newAudit,
	newKeys,
	newRestore,
}

func newRoot(a *app) *cobra.Command {
	root := group("cairn", "Shared agent sessions on many devices", commands, a)
	root.Long = `cairn is the sync server that people, their devices and their AI agents share, and its client.

The client commands read CAIRN_URL (default ` + defaultURL + `), CAIRN_API_KEY, and CAIRN_DEVICE (an id
made once per install when unset). CAIRN_SHARE_TOKEN opens what a link share opens.`
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.Version = version().line()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{message: explainFlag(err), command: cmd.CommandPath()}
	})
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.InitDefaultCompletionCmd() // now, so that it can refuse what it does not know
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		refuseUnknown(completion, a)
	}
	return root
}

// explainFlag says what a flag wants, instead of which function could not read it.
func explainFlag(err error) string {
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	wanted := map[string]string{
		"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a duration such as 5s",
	}[wrong.GetFlag().Value.Type()]
	if wanted == "" {
		return err.Error()
	}
	return fmt.Sprintf("--%s is %s, not %q", wrong.GetFlag().Name, wanted, wrong.GetValue())
}

// group is a command that only has commands below it.
func group(use, short string, below []func(*app) *cobra.Command, a *app) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	refuseUnknown(cmd, a)
	for _, command := range below {
		cmd.AddCommand(command(a))
	}
	return cmd
}

// refuseUnknown lets a command refuse what is no command below it, and the want of one.
func refuseUnknown(cmd *cobra.Command, a *app) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
	}
}

// needs is the annotation of a command with the flags it cannot do without, as they are called.
const needs = "needs"

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
	if flags := cmd.Annotations[needs]; flags != "" {
		call += " " + flags
	}
	return &usageError{message: "call it as `" + call + "`", command: cmd.CommandPath()}
}
