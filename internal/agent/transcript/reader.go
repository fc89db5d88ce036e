package transcript

import (
	"bytes"
	"fmt"
	"io"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// dialect understands the records of one format. It works on the draft it was made with.
type dialect interface {
	record() // identifies the draft's record and adds its events
	end()    // adds the events of the file's end
}

func (d *draft) dialect() dialect {
	switch d.format {
	case Codex:
		return newCodex(d)
	case ACP:
		return newACP(d)
	default:
		return newClaude(d)
	}
}

// Step is what came of one line, or of the end of the file.
type Step struct {
	Line    int    // its number, from 1; of the last line for the end
	Read    int64  // bytes of the file up to here
	Blank   bool   // an empty line, or the end
	Skipped string // why the line was skipped, or ""
	Cut     bool   // an event of it was too large and was cut
	Events  []wire.IncomingEvent
}

// Reader makes events of the lines of one transcript.
type Reader struct {
	lines *lineReader
	draft *draft
	knows dialect
	last  []byte // what identifies the last record
	ended bool
}

// NewReader reads a transcript of the format that Survey answered. Records before the first one with a time get
// survey.FirstTS.
func NewReader(in io.Reader, survey Survey) *Reader { return newReader(in, survey, MaxLine) }

func newReader(in io.Reader, survey Survey, longest int) *Reader {
	draft := newDraft(survey.Format)
	draft.ts = survey.FirstTS
	return &Reader{lines: newLineReader(in, longest), draft: draft, knows: draft.dialect()}
}

// Title answers the best title that is known by now, or "": what a person called it, else its first prompt, else a
// summary.
func (r *Reader) Title() string { return r.draft.title() }

// Named answers the title that a person gave it, as far as it was read, or "".
func (r *Reader) Named() string { return r.draft.named }

// Next reads one line. The last Step is that of the end, which closes what is open; after it comes io.EOF. Any other
// error is the io.Reader's.
func (r *Reader) Next() (Step, error) {
	if r.ended {
		return Step{}, io.EOF
	}
	line, length, err := r.lines.next()
	step := Step{Line: r.lines.number, Read: r.lines.read}
	switch {
	case err == io.EOF: //nolint:errorlint // lineReader answers it bare
		return r.end(step), nil
	case err != nil:
		return step, err
	case line == nil && length > 0:
		step.Skipped = fmt.Sprintf("it has %d bytes, the limit is %d", length, r.lines.max)
		return step, nil
	case len(bytes.TrimSpace(line)) == 0:
		step.Blank = true
		return step, nil
	}
	if step.Skipped = wellFormed(line); step.Skipped != "" {
		return step, nil
	}
	r.take(step.Line, line)
	step.Events, step.Cut = r.draft.events, r.draft.cut
	return step, nil
}

// maxParts bounds the lists and objects of a record that is looked into: each costs more memory than its text.
const maxParts = 200_000

// take makes the events of one record.
func (r *Reader) take(number int, record []byte) {
	r.draft.begin(number, record)
	if bytes.Count(record, []byte("{"))+bytes.Count(record, []byte("[")) > maxParts {
		r.draft.identify("")
		r.draft.keep(typeOf(record))
	} else {
		r.knows.record()
	}
	r.last = append(r.last[:0], r.draft.base...)
}

// end closes what the file leaves open. Its events have ids of the last record's, so that a file that has grown since
// makes others.
func (r *Reader) end(step Step) Step {
	r.ended = true
	r.draft.begin(step.Line, r.last)
	r.draft.identify("")
	r.draft.base = "end:" + r.draft.base
	r.knows.end()
	step.Blank, step.Events, step.Cut = true, r.draft.events, r.draft.cut
	return step
}
