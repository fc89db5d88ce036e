package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// shownDigest is how many characters of a digest the table shows.
const shownDigest = 16

// cuts is how often the fragile viewer loses its connection.
const cuts = 2

// facts are what the server says in the end.
type facts struct {
	log       []wire.Event
	digest    string
	controls  []wire.Control
	transfers int
}

// judge compares what everybody received with the server's log, prints it, and answers whether all is well.
func (d *director) judge(ctx context.Context) error {
	found, err := d.gather(ctx)
	if err != nil {
		return err
	}
	if err := d.print(d.table(found)...); err != nil {
		return err
	}
	wrong := d.wrong(found)
	if len(wrong) == 0 {
		return d.print("\n✔ Every log is the server's: no gap, no duplicate.")
	}
	return fmt.Errorf("%w:\n  %s", ErrFailed, strings.Join(wrong, "\n  "))
}

func (d *director) gather(ctx context.Context) (facts, error) {
	var found facts
	sum := newDigest()
	for event, err := range d.stage.reader.AllEvents(ctx, d.stage.session, 0) {
		if err != nil {
			return facts{}, fmt.Errorf("read the server's log: %w", err)
		}
		if err := sum.add(event); err != nil {
			return facts{}, err
		}
		if event.Kind == wire.KindLeaseTransferred {
			found.transfers++
		}
		found.log = append(found.log, event)
	}
	for control, err := range d.stage.reader.AllControls(ctx, d.stage.session, client.ControlsQuery{Applied: client.AppliedAll}) {
		if err != nil {
			return facts{}, fmt.Errorf("read controls: %w", err)
		}
		found.controls = append(found.controls, control)
	}
	found.digest = sum.String()
	return found, nil
}

// table answers the result in lines.
func (d *director) table(found facts) []string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	row := func(cells ...string) {
		_, _ = columns.Write([]byte(strings.Join(cells, "\t") + "\n")) // into memory
	}
	row("VIEWER", "VIA", "EVENTS", "GAPS", "DUPLICATES", "RECONNECTS", "SHA-256 OF THE LOG")
	for _, one := range d.stage.followers() {
		t := d.tallies[one]
		row(one.Name, one.via(), number(t.Events), number(t.Gaps), number(t.Duplicates), number(t.Reconnects), t.Digest[:shownDigest])
	}
	row("server", engine(d.Database), strconv.Itoa(len(found.log)), "-", "-", "-", found.digest[:shownDigest])
	_ = columns.Flush() // as above
	lines := append([]string{""}, strings.Split(text.String(), "\n")...)
	return append(lines[:len(lines)-1], "",
		fmt.Sprintf("Lease      %d forced transfer, from %s to %s", found.transfers, d.stage.laptop.Name, d.stage.workstation.Name),
		fmt.Sprintf("Controls   %d sent by %s, %d applied: %s", len(found.controls), d.stage.desktop.Name, applied(found.controls), kinds(found.controls)),
		fmt.Sprintf("Recording  %d of %d lines stand in the log exactly once", len(d.run)-d.run.Missing(found.log), len(d.run)),
		fmt.Sprintf("Took       %s", d.took.Round(100*time.Millisecond)),
	)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func applied(controls []wire.Control) int {
	count := 0
	for _, control := range controls {
		if control.Applied {
			count++
		}
	}
	return count
}

func kinds(controls []wire.Control) string {
	names := make([]string, len(controls))
	for i, control := range controls {
		names[i] = string(control.Kind)
	}
	return strings.Join(names, ", ")
}

// wrong answers everything that is not as it must be.
func (d *director) wrong(found facts) []string {
	var wrong []string
	expect := func(fine bool, format string, args ...any) {
		if !fine {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for _, one := range d.stage.followers() {
		t := d.tallies[one]
		expect(t.Digest == found.digest, "the log of %s differs from the server's", one.Name)
		expect(t.Gaps == 0, "%s saw %d gaps", one.Name, t.Gaps)
		expect(t.Duplicates == 0, "%s saw %d duplicates", one.Name, t.Duplicates)
	}
	again := d.tallies[d.stage.phone].Reconnects
	expect(again >= cuts, "%s connected again %d times, not %d", d.stage.phone.Name, again, cuts)
	missing := d.run.Missing(found.log)
	expect(missing == 0, "%d lines of the recording are not in the log exactly once", missing)
	expect(found.transfers == 1 && d.lost == 1, "the lease was taken by force %d times, and lost %d times", found.transfers, d.lost)
	pending := len(found.controls) - applied(found.controls)
	expect(pending == 0, "%d controls were not applied", pending)
	expect(len(found.controls) == editorActs, "%s sent %d controls, not %d", d.stage.desktop.Name, len(found.controls), editorActs)
	return wrong
}
