// Package render writes the events of a session for people: one line each.
//
// Contract. A Renderer is a pure function from an event or a frame to its line (with Lines, lines); it keeps nothing
// between calls. Every text that came from elsewhere is made fit to print first (Clean): no event, whatever it
// carries, can move the cursor, change colours, reorder a line or begin a new one. Unknown kinds are shown
// plainly (records that an import kept only if asked to), sealed payloads as sealed, and payloads that do not fit
// their kind as they came (SS-TRC-1).
//
// Blocking and concurrency. Nothing blocks; a Renderer may be used by several goroutines.
package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// Bounds of one line, in characters of text.
const (
	longestSpeech = 4000 // what people and agents say
	longestData   = 240  // arguments, results, payloads
)

// Renderer says how lines look. The zero value is plain text with times in UTC, one line for each event.
type Renderer struct {
	Color    bool           // with ANSI colours, for terminals
	Location *time.Location // of the times shown; nil is UTC
	// Names are what devices are called, by id; a device without one is shown by the end of its id.
	Names map[string]string
	// Lines keeps the line ends of what people and agents say, for terminals; later lines are indented by Indent.
	Lines bool
	// Kept also shows records that an import kept as they came, because the vocabulary has no word for them.
	Kept bool
}

// Indent is where the text of a line begins, in columns, when its label is not longer than most.
const Indent = 27

// style is the parameter of an ANSI SGR sequence (ECMA-48 section 8.3.117).
type style string

const (
	plainly style = ""
	bold    style = "1"
	faint   style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "1;33"
	magenta style = "35"
	cyan    style = "36"
)

// row is what a line says, before it is cleaned, cut and coloured.
type row struct {
	mark  string
	label string
	text  string
	style style
	dim   bool // the text too, not only mark and label
	most  int  // characters of text; 0 is longestData
	skip  bool // there is nothing to say
}

// keptKind begins the kinds of records that an import kept as they came.
const keptKind = "import:"

// Event answers the line of an event, or "" for one that is left out (Kept) or has nothing to say, such as an empty last piece.
func (r Renderer) Event(event wire.Event) string {
	if !r.Kept && strings.HasPrefix(event.Kind, keptKind) {
		return ""
	}
	at := time.UnixMilli(event.TS).UTC()
	if r.Location != nil {
		at = at.In(r.Location)
	}
	shown := r.eventRow(event)
	if shown.skip {
		return ""
	}
	return r.line(fmt.Sprintf("%5d %s", event.Seq, at.Format(time.TimeOnly)), shown)
}

// Frame answers the line of a frame, or "" for one that has nothing to say.
func (r Renderer) Frame(frame client.Frame) string {
	if event, ok := frame.(client.EventFrame); ok {
		return r.Event(event.Event)
	}
	shown, ok := r.frameRow(frame)
	if !ok {
		return ""
	}
	return r.line(strings.Repeat(" ", len("    1 15:04:05")), shown)
}

func (r Renderer) line(head string, shown row) string {
	most := shown.most
	if most == 0 {
		most = longestData
	}
	text := cut(r.clean(shown), most)
	label := fmt.Sprintf("%s %-8s", shown.mark, cut(Clean(shown.label), wire.MaxKind))
	textStyle := plainly
	if shown.dim {
		textStyle = faint
	}
	line := r.paint(faint, head) + "  " + r.paint(shown.style, label) + " " + r.paint(textStyle, text)
	return strings.TrimRight(line, " ")
}

// clean makes the text of a row fit to print.
func (r Renderer) clean(shown row) string {
	text := strings.TrimSpace(shown.text)
	if !r.Lines || shown.most != longestSpeech {
		return strings.TrimSpace(Clean(text))
	}
	return strings.ReplaceAll(strings.TrimSpace(CleanLines(text)), "\n", "\n"+strings.Repeat(" ", Indent))
}

func (r Renderer) paint(in style, text string) string {
	if !r.Color || in == plainly || text == "" {
		return text
	}
	return "\x1b[" + string(in) + "m" + text + "\x1b[0m"
}

// eventRow answers what an event says.
func (r Renderer) eventRow(event wire.Event) row {
	if control, ok := client.ControlOf(event); ok {
		return r.controlRow(control)
	}
	if event.Kind == wire.KindLeaseTransferred {
		return r.transferRow(event)
	}
	if sealed(event.Payload) {
		return row{mark: "◆", label: event.Kind, text: "sealed", style: faint, dim: true}
	}
	payload, err := trace.Read(event)
	if err != nil {
		payload = trace.Unknown{Name: event.Kind, Raw: event.Payload}
	}
	return r.payloadRow(payload)
}

// sealed is true for the payload of an end-to-end encrypted event (SS-E2E-1).
func sealed(payload json.RawMessage) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || len(fields) != 1 {
		return false
	}
	return strings.HasPrefix(string(fields["hide"]), `"`)
}

func (r Renderer) transferRow(event wire.Event) row {
	var transfer struct {
		From string `json:"from_device_id"`
		To   string `json:"to_device_id"`
	}
	if json.Unmarshal(event.Payload, &transfer) != nil {
		return row{mark: "⇄", label: "lease", text: string(event.Payload), style: magenta}
	}
	return row{mark: "⇄", label: "lease", text: "taken over from " + r.device(transfer.From) + " by " + r.device(transfer.To), style: magenta}
}

func (r Renderer) controlRow(control wire.Control) row {
	text := string(control.Kind)
	if control.Mode == wire.ModeOpen {
		text = "open here" // the kind says nothing then
	}
	if control.AskID != nil {
		text += " " + *control.AskID
	}
	if control.Text != nil {
		text += ": " + *control.Text
	}
	if control.TargetDeviceID != nil {
		text += " → " + r.device(*control.TargetDeviceID)
	}
	return row{mark: "»", label: "control", text: text + "  from " + r.device(control.FromDeviceID), style: magenta, most: longestSpeech}
}

// frameRow answers what a frame that is no event says.
func (r Renderer) frameRow(frame client.Frame) (row, bool) {
	quiet := row{mark: "·", style: faint, dim: true}
	switch frame := frame.(type) {
	case client.ControlFrame:
		if !frame.Applied {
			return row{}, false // its echo event says the same
		}
		quiet.label, quiet.text = "applied", appliedText(frame.Control)
	case client.LeaseFrame:
		quiet.label, quiet.text = "lease", "no executor"
		if frame.HolderDeviceID != nil {
			quiet.text = "executor is " + r.device(*frame.HolderDeviceID)
		}
	case client.PresenceFrame:
		quiet.label, quiet.text = "presence", r.presence(frame.Presence)
	case client.ResetFrame:
		return row{mark: "!", label: "reset", text: "the server's log was restored: events come again from the first", style: yellow}, true
	case client.ConnectionFrame:
		if frame.State != client.Lost {
			return row{}, false
		}
		quiet.label = "offline"
		quiet.text = "connection lost, again in " + frame.RetryIn.Round(100*time.Millisecond).String()
	default:
		return row{}, false
	}
	return quiet, true
}

// appliedText names a control by its event, which a reader has seen.
func appliedText(control wire.Control) string {
	if control.Seq == 0 {
		return string(control.Kind) + " " + control.ID
	}
	return fmt.Sprintf("%s, event %d", control.Kind, control.Seq)
}

func (r Renderer) presence(p wire.Presence) string {
	text := r.device(p.DeviceID) + " (" + string(p.Role) + ")"
	switch {
	case p.Online != nil && !*p.Online:
		return text + " left"
	case p.Driving:
		return text + " is driving"
	default:
		return text + " is here"
	}
}

// device answers what a device is called.
func (r Renderer) device(id string) string {
	if name := r.Names[id]; name != "" {
		return name
	}
	return Short(id)
}

// Short answers the end of an id, where ids made at one time differ.
func Short(id string) string {
	const shown = 8
	if len(id) <= shown {
		return id
	}
	return "…" + id[len(id)-shown:]
}
