package attach

import (
	"slices"
)

// Bounds of the part of the log that is held.
const (
	maxEvents = 4000
	maxBytes  = 32 << 20
	// slack is how much more may gather before the window is cut, so that it is not cut for each event.
	slack = 1000
	// pageSize is how many events one request reads.
	pageSize = 500
)

// window is a stretch of the log without holes, with its blocks, and the place in it that is looked at.
type window struct {
	entries []entry
	bytes   int
	script  *transcript
	looks   looks

	expanded map[string]bool // tool calls, by id
	all      bool            // everything is expanded
	selected string          // id of the tool call that is selected, or ""

	// The first row of the screen is row top of block at, unless follow: then the last row is the newest.
	follow bool
	at     int
	top    int
}

func newWindow(l looks) *window {
	return &window{looks: l, script: newTranscript(l), expanded: map[string]bool{}, follow: true}
}

func (w *window) first() int64 {
	if len(w.entries) == 0 {
		return 0
	}
	return w.entries[0].event.Seq
}

func (w *window) last() int64 {
	if len(w.entries) == 0 {
		return 0
	}
	return w.entries[len(w.entries)-1].event.Seq
}

// full reports whether the window holds as much as it may.
func (w *window) full() bool { return len(w.entries) >= maxEvents || w.bytes >= maxBytes }

// over reports whether it must be cut.
func (w *window) over() bool {
	return len(w.entries) >= maxEvents+slack || w.bytes >= maxBytes+maxBytes/4
}

// append takes the events after the last one. What is over the bound is dropped at the start.
func (w *window) append(entries []entry) {
	for _, e := range entries {
		w.entries = append(w.entries, e)
		w.bytes += e.bytes
		w.script.add(e)
	}
	if w.over() {
		w.refold(func() { w.cutStart() })
	}
}

// prepend takes the events before the first one. What is over the bound is dropped at the end, and true is answered.
func (w *window) prepend(entries []entry) (cut bool) {
	w.refold(func() {
		w.entries = slices.Concat(entries, w.entries)
		for _, e := range entries {
			w.bytes += e.bytes
		}
		for len(w.entries) > 1 && w.over() {
			w.bytes -= w.entries[len(w.entries)-1].bytes
			w.entries = w.entries[:len(w.entries)-1]
			cut = true
		}
	})
	return cut
}

func (w *window) cutStart() {
	at := 0
	for at < len(w.entries)-1 && (len(w.entries)-at > maxEvents || w.bytes > maxBytes) {
		w.bytes -= w.entries[at].bytes
		at++
	}
	w.entries = slices.Clone(w.entries[at:])
}

// refold makes the blocks anew after change, and stays where it is: at the same distance from the end of the events
// that stood at the top.
func (w *window) refold(change func()) {
	var seq int64
	below := 0
	if b := w.block(w.at); b != nil {
		seq, below = b.last, len(b.rows)-w.top
	}
	change()
	w.script = newTranscript(w.looks)
	for _, e := range w.entries {
		w.script.add(e)
	}
	w.at, w.top = 0, 0
	for i, b := range w.script.blocks {
		if b.first > seq {
			break
		}
		w.at, w.top = i, -below // settled by the next look, which knows how high blocks are
	}
}

func (w *window) block(i int) *block {
	if i < 0 || i >= len(w.script.blocks) {
		return nil
	}
	return w.script.blocks[i]
}

// rows answers the rows of a block.
func (w *window) rows(i, room int) []row {
	b := w.block(i)
	if b == nil {
		return nil
	}
	id := ""
	if b.tool != nil {
		id = b.tool.id
	}
	return b.draw(room, w.all || id != "" && w.expanded[id], id != "" && id == w.selected)
}

// settle makes the place valid for rows of room columns and a screen of height rows.
func (w *window) settle(room, height int) {
	w.at = min(max(w.at, 0), max(0, len(w.script.blocks)-1))
	if w.top < 0 {
		w.top = max(0, len(w.rows(w.at, room))+w.top)
	}
	if count := len(w.rows(w.at, room)); w.top >= count && w.at < len(w.script.blocks)-1 {
		w.at, w.top = w.at+1, 0
	} else {
		w.top = min(w.top, max(0, count-1))
	}
	if w.follow || !w.below(room, height) {
		w.bottom(room, height)
	}
}

// below reports whether the screen from the place on is full.
func (w *window) below(room, height int) bool {
	count := -w.top
	for i := w.at; i < len(w.script.blocks) && count < height; i++ {
		count += len(w.rows(i, room))
	}
	return count >= height
}

// bottom moves to where the newest row is the last one of the screen.
func (w *window) bottom(room, height int) {
	count := 0
	w.at, w.top = 0, 0
	for i := range slices.Backward(w.script.blocks) {
		count += len(w.rows(i, room))
		if count >= height {
			w.at, w.top = i, count-height
			return
		}
	}
}

// move scrolls by rows, down when positive. It answers whether it went as far up as there is.
func (w *window) move(by, room, height int) (atStart bool) {
	w.settle(room, height)
	for ; by < 0 && !atStart; by++ {
		atStart = !w.up(room)
	}
	for ; by > 0 && w.down(room); by-- {
	}
	at, top := w.at, w.top
	w.bottom(room, height)
	w.follow = at > w.at || at == w.at && top >= w.top
	if !w.follow {
		w.at, w.top = at, top
	}
	return atStart
}

// up moves one row up, and answers whether there was one.
func (w *window) up(room int) bool {
	if w.top > 0 {
		w.top--
		return true
	}
	for i := w.at - 1; i >= 0; i-- {
		if count := len(w.rows(i, room)); count > 0 {
			w.at, w.top = i, count-1
			return true
		}
	}
	return false
}

// down moves one row down, and answers whether there was one.
func (w *window) down(room int) bool {
	if w.top+1 < len(w.rows(w.at, room)) {
		w.top++
		return true
	}
	for i := w.at + 1; i < len(w.script.blocks); i++ {
		if len(w.rows(i, room)) > 0 {
			w.at, w.top = i, 0
			return true
		}
	}
	return false
}

// look answers the rows of the screen, at most height.
func (w *window) look(room, height int) []row {
	w.settle(room, height)
	var shown []row
	for i := w.at; i < len(w.script.blocks) && len(shown) < height; i++ {
		rows := w.rows(i, room)
		if i == w.at {
			rows = rows[min(w.top, len(rows)):]
		}
		shown = append(shown, rows...)
	}
	return shown[:min(len(shown), height)]
}

// toggle expands or folds the selected tool call, or the newest one.
func (w *window) toggle() bool {
	id := w.selected
	if id == "" {
		for i := len(w.script.blocks) - 1; i >= 0 && id == ""; i-- {
			if b := w.script.blocks[i]; b.tool != nil {
				id = b.tool.id
			}
		}
	}
	if id == "" {
		return false
	}
	if w.expanded[id] {
		delete(w.expanded, id)
	} else if len(w.expanded) < maxEvents {
		w.expanded[id] = true
	}
	return true
}

// selectTool moves the selection to the tool call before (by -1) or after it, and shows it.
func (w *window) selectTool(by, room, height int) {
	place := len(w.script.blocks)
	for i, b := range w.script.blocks {
		if b.tool != nil && b.tool.id == w.selected && w.selected != "" {
			place = i
		}
	}
	for i := place + by; i >= 0 && i < len(w.script.blocks); i += by {
		if b := w.script.blocks[i]; b.tool != nil {
			w.selected = b.tool.id
			w.show(i, room, height)
			return
		}
	}
	if by > 0 {
		w.selected, w.follow = "", true
	}
}

// show scrolls so that a block can be seen.
func (w *window) show(i, room, height int) {
	w.settle(room, height)
	count := -w.top
	for j := w.at; j < i; j++ {
		count += len(w.rows(j, room))
	}
	if i >= w.at && count >= 0 && count < height {
		return
	}
	w.at, w.top, w.follow = i, 0, false
	w.move(-min(height/3, 5), room, height)
}

// restart empties the window and goes to its end.
func (w *window) restart() {
	w.entries, w.bytes, w.script = nil, 0, newTranscript(w.looks)
	w.follow, w.at, w.top, w.selected = true, 0, 0, ""
}
