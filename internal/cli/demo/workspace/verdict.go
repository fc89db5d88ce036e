package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	client "github.com/cairnsync/cairn/client/workspace"
)

// maxShown bounds how many differences of one device are shown.
const maxShown = 5

// outcome is what came of a device.
type outcome struct {
	device      *device
	record      record
	fields      int
	differences []client.Difference
}

// judge compares every device's copy with a fresh answer of the server, prints the result, and answers whether all is well.
func (s *stage) judge(ctx context.Context) error {
	if err := s.check(ctx, s.devices()...); err != nil {
		return err
	}
	var outcomes []outcome
	for _, d := range s.devices() {
		held := d.account.State().Export()
		asked, err := d.account.Client().Fresh(ctx, held)
		if err != nil {
			return fmt.Errorf("ask for a fresh copy as %s: %w", d.name, err)
		}
		outcomes = append(outcomes, outcome{device: d, record: d.note(), fields: leaves(asked), differences: client.Compare(held, asked)})
	}
	var chain struct{ Rows int64 }
	if err := s.run(ctx, "", &chain, "audit", "verify"); err != nil {
		return err
	}
	if err := s.print(s.table(outcomes)...); err != nil {
		return err
	}
	if err := s.print("", fmt.Sprintf("Audit   %d rows, and the chain holds", chain.Rows),
		fmt.Sprintf("Took    %s", s.Env.Now().Sub(s.started).Round(100*time.Millisecond))); err != nil {
		return err
	}
	wrong := wrongs(outcomes)
	if len(wrong) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrFailed, strings.Join(wrong, "\n  "))
	}
	return s.print("", s.styled(green, "✔")+" Every device holds what the server says, field by field: no gap, no duplicate, nothing it may not see.")
}

// leaves counts the values in what is compared.
func leaves(export client.Export) int {
	encoded, err := json.Marshal(export)
	if err != nil {
		return 0
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return 0
	}
	var count func(any) int
	count = func(node any) int {
		sum := 0
		switch node := node.(type) {
		case map[string]any:
			for _, value := range node {
				sum += count(value)
			}
		case []any:
			for _, value := range node {
				sum += count(value)
			}
		default:
			return 1
		}
		return sum
	}
	return count(tree)
}

// table answers the result in lines.
func (s *stage) table(outcomes []outcome) []string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...any) {
		for _, cell := range cells {
			_, _ = fmt.Fprintf(columns, "%v\t", cell) // into memory
		}
		_, _ = fmt.Fprintln(columns)
	}
	row("DEVICE", "EVENTS", "GAPS", "DUPLICATES", "NOT ALLOWED", "RECONNECTS", "RESYNCS", "FIELDS", "DIFFERENT")
	for _, o := range outcomes {
		row(o.device.name, o.record.events, len(o.record.missed), o.record.duplicates, o.record.trespasses+int64(len(o.record.violations)),
			o.record.lost, s.resyncs[o.device], o.fields, len(o.differences))
	}
	_ = columns.Flush() // as above
	return append([]string{""}, strings.Split(strings.TrimRight(text.String(), "\n"), "\n")...)
}

// wrongs answers everything that is not as it must be.
func wrongs(outcomes []outcome) []string {
	var wrong []string
	expect := func(fine bool, format string, args ...any) {
		if !fine {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for _, o := range outcomes {
		expect(len(o.record.missed) == 0, "%s did not receive %s", o.device.name, strings.Join(o.record.missed, ", "))
		expect(o.record.duplicates == 0, "%s received %d events again", o.device.name, o.record.duplicates)
		expect(o.record.trespasses == 0, "%s received %d events of channels it may not see", o.device.name, o.record.trespasses)
		for _, violated := range o.record.violations {
			expect(false, "%s: %v", o.device.name, violated)
		}
		for i, difference := range o.differences {
			if i == maxShown {
				expect(false, "%s: and %d more", o.device.name, len(o.differences)-i)
				break
			}
			expect(false, "%s: %s", o.device.name, difference)
		}
	}
	return wrong
}
