package cli

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/cli/demo/view"
	"github.com/cairnsync/cairn/internal/cli/render"
)

// columns answers how wide the terminal is that is printed to, 0 when it is none.
func (a *app) columns() int {
	file, ok := a.out.(*os.File)
	if !ok || !a.terminal {
		return 0
	}
	width, _ := terminalSize(file)
	return width
}

// sheet is a table before it is printed, its cells clean.
type sheet struct {
	header []string
	rows   [][]string
}

// step makes a sheet narrower, by over columns if it can.
type step func(s *sheet, over int)

// gap is the space between two columns.
const gap = 2

// fit takes one step after the other until the sheet fits. A width of 0 fits everything.
func (s *sheet) fit(width int, narrower []step) {
	if width == 0 {
		return
	}
	for _, narrow := range narrower {
		if over := s.width() - width; over > 0 {
			narrow(s, over)
		}
	}
}

func (s *sheet) width() int {
	total := -gap
	for at := range s.header {
		total += gap + s.widthOf(at)
	}
	return total
}

func (s *sheet) widthOf(at int) int {
	widest := view.Width(s.header[at])
	for _, row := range s.rows {
		widest = max(widest, view.Width(row[at]))
	}
	return widest
}

// change replaces every cell of a column, if it is there.
func (s *sheet) change(name string, shorter func(cell string, row []string) string) {
	at := slices.Index(s.header, name)
	if at < 0 {
		return
	}
	for _, row := range s.rows {
		row[at] = shorter(row[at], row)
	}
}

// cut shortens a column, to least at the least.
func cut(name string, least int) step {
	return func(s *sheet, over int) {
		at := slices.Index(s.header, name)
		if at < 0 {
			return
		}
		width := max(s.widthOf(at)-over, least, len(name))
		s.change(name, func(cell string, _ []string) string { return view.Cut(cell, width) })
	}
}

// drop leaves a column out.
func drop(name string) step {
	return func(s *sheet, _ int) {
		at := slices.Index(s.header, name)
		if at < 0 {
			return
		}
		s.header = slices.Delete(s.header, at, at+1)
		for i, row := range s.rows {
			s.rows[i] = slices.Delete(row, at, at+1)
		}
	}
}

// shortIDs shows the ends of ids, where something else in the row is as good a name.
func shortIDs(name string, unless func(row []string) bool) step {
	return func(s *sheet, _ int) {
		s.change(name, func(cell string, row []string) string {
			if unless(row) {
				return cell
			}
			return render.Short(cell)
		})
	}
}

// shortTimes shows the time of today, and the date of another day, in UTC as before.
func shortTimes(name string, now time.Time) step {
	return func(s *sheet, _ int) {
		today := now.UTC().Format(time.DateOnly)
		s.change(name, func(cell string, _ []string) string {
			day, clock, found := strings.Cut(strings.Replace(cell, "T", " ", 1), " ")
			if !found || day != today || len(clock) < len(time.TimeOnly) {
				return day
			}
			return clock[:len(time.TimeOnly)] + "Z"
		})
	}
}

// narrowSessions is how a list of sessions fits a terminal. An id stays whole where no key names the session.
func (a *app) narrowSessions() []step {
	const key = 1 // the column
	return []step{
		shortIDs("ID", func(row []string) bool { return row[key] == "-" }), cut("TITLE", 24), shortTimes("ACTIVE", a.env.Now()),
		shortIDs("SHARE", never), cut("KEY", 16), cut("TITLE", 8), drop("OPEN"), drop("EVENTS"), drop("EXECUTOR"),
	}
}

// narrowDevices is how a list of devices fits a terminal. Commands know a device by what is left of its id, too.
func (a *app) narrowDevices() []step {
	return []step{cut("NAME", 16), shortTimes("SEEN", a.env.Now()), shortIDs("DEVICE", never), cut("NAME", 8)}
}

func never([]string) bool { return false }
