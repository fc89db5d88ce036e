package cli

import (
	"encoding/json"
	"errors"
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

// printError is an answer that could not be written.
type printError struct{ cause error }

// Error answers what failed.
func (e *printError) Error() string { return "print answer: " + e.cause.Error() }

// Unwrap answers the cause.
func (e *printError) Unwrap() error { return e.cause }

// show prints value as JSON when asked to, and otherwise what human prints.
func (a *app) show(value any, human func() error) error {
	if !a.json {
		return human()
	}
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return &printError{err}
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
		return &printError{err}
	}
	return nil
}

// table prints rows under a header, in columns. At a terminal that is too narrow for it, the steps of narrower help.
func (a *app) table(header string, rows [][]string, narrower ...step) error {
	if len(rows) == 0 {
		a.remark("none")
		return nil
	}
	shown := &sheet{header: strings.Split(header, " "), rows: rows}
	for _, row := range rows {
		for i := range row {
			row[i] = render.Clean(row[i])
		}
	}
	shown.fit(a.columns(), narrower)
	lines := []string{strings.Join(shown.header, "\t")}
	for _, row := range shown.rows {
		lines = append(lines, strings.Join(row, "\t"))
	}
	columns := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	_, err := columns.Write([]byte(strings.Join(lines, "\n") + "\n"))
	if err = errors.Join(err, columns.Flush()); err != nil {
		return &printError{err}
	}
	return nil
}

// remark says something to the user that is no answer. What cannot be said there cannot be said at all.
func (a *app) remark(text string) { _, _ = fmt.Fprintln(a.errs, text) }

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
