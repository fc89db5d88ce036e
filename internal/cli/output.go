package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/cli/render"
)

// jsonFlag gives a command, and all below it, --json.
func (a *app) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	return cmd
}

// show prints value as JSON when asked to, and otherwise what human prints.
func (a *app) show(value any, human func() error) error {
	if !a.json {
		return human()
	}
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// say prints one line. Arguments come from other people: they are made fit to print.
func (a *app) say(format string, args ...any) error {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = render.Clean(text)
		}
	}
	if _, err := fmt.Fprintf(a.out, format+"\n", args...); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// table prints rows under a header, in columns.
func (a *app) table(header string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.errs, "none")
		return err
	}
	columns := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.ReplaceAll(header, " ", "\t"))
	for _, row := range rows {
		for i := range row {
			row[i] = render.Clean(row[i])
		}
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	if err := columns.Flush(); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// orDash answers text, or a dash when there is none.
func orDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
