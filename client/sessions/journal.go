package sessions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// journalSlack is how much of settled events a journal's file may hold before it is written anew.
const journalSlack = 4 << 20

// maxJournalLine bounds one record: an event and its frame.
const maxJournalLine = maxEventBytes + 1<<20

// ErrNoJournalRoom is an event that could not be written down, for example on a full disk.
var ErrNoJournalRoom = errors.New("event could not be written to the journal")

// A Journal keeps an Executor's events in a file from Emit until the server has stored them, so that a process that dies
// loses none: an Executor that is given the same journal sends first what is left in it, each event once. The file holds
// payloads in clear, also of sealed sessions, and is made for its owner only (0600). It is written through to the system,
// not to the disk: it outlives the process, and a power cut may cost the last moments.
//
// A Journal belongs to one Executor at a time, and to one process: see that no two open the same file.
type Journal struct {
	path string

	mu      sync.Mutex // guards what follows
	file    *os.File
	size    int64
	waiting []queued
	filed   int   // so many of them, the first ones, are in the file
	dropped int64 // bytes of settled records in the file
}

// record is one line of a journal.
type record struct {
	Event   *wire.IncomingEvent `json:"event,omitempty"`
	Settled int                 `json:"settled,omitempty"` // so many of the first events that were left are stored
}

// OpenJournal opens a journal, made when it is not there. A last record that a dying process wrote in part is dropped: its
// Emit had not returned. Any other record that cannot be read is an error, and the file stays as it is.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{path: path, file: file}
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("read journal %s: %w", path, err), file.Close())
	}
	return j, nil
}

// load reads what is left, and cuts off a torn record.
func (j *Journal) load() error {
	reader := bufio.NewReaderSize(j.file, 1<<16)
	for number := 1; ; number++ {
		line, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		var read record
		if err := json.Unmarshal(line, &read); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := j.replay(read, int64(len(line))); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("cut off a torn record: %w", err)
	}
	_, err := j.file.Seek(j.size, io.SeekStart)
	return err //nolint:wrapcheck // the caller names the file
}

// readLine answers a line with its end; io.EOF also for one without.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := reader.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err //nolint:wrapcheck // io.EOF must stay bare
		}
		if len(line) > maxJournalLine {
			return nil, bufio.ErrTooLong
		}
	}
}

func (j *Journal) replay(read record, bytes int64) error {
	j.size += bytes
	switch {
	case read.Event != nil:
		j.waiting = append(j.waiting, queued{event: *read.Event, size: eventSize(*read.Event)})
		j.filed++
	case read.Settled < 0 || read.Settled > len(j.waiting):
		return fmt.Errorf("it settles %d of %d events", read.Settled, len(j.waiting))
	default:
		j.waiting = j.waiting[read.Settled:]
		j.filed -= read.Settled
	}
	return nil
}

// Waiting answers how many events are left.
func (j *Journal) Waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.waiting)
}

// Events answers what is left, oldest first.
func (j *Journal) Events() []wire.IncomingEvent {
	left := j.left()
	events := make([]wire.IncomingEvent, len(left))
	for i, waiting := range left {
		events[i] = waiting.event
	}
	return events
}

// left answers a copy of what is left.
func (j *Journal) left() []queued {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.waiting)
}

// SetAside moves what is left into a file of its own, one event as JSON a line, and empties the journal. It answers how many
// events these are; for none no file is made. It is for events that cannot be stored any more.
func (j *Journal) SetAside(path string) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) == 0 {
		return 0, nil
	}
	var lines bytes.Buffer
	for _, left := range j.waiting {
		if err := encodeLine(&lines, left.event); err != nil {
			return 0, err
		}
	}
	if err := os.WriteFile(path, lines.Bytes(), 0o600); err != nil {
		return 0, fmt.Errorf("set events aside: %w", err)
	}
	count := len(j.waiting)
	j.waiting = nil
	return count, j.empty()
}

// Close closes the file, and removes it when nothing is left in it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.file.Close()
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	if len(j.waiting) == 0 {
		err = errors.Join(err, os.Remove(j.path))
	}
	if err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// Room reports whether a record can be written at all: the error is ErrNoJournalRoom when it cannot, for example on a full disk.
func (j *Journal) Room() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(record{}); err != nil {
		return fmt.Errorf("%w: %w", ErrNoJournalRoom, err)
	}
	return nil
}

// add writes an event down. One of the last is taken also when that fails, in memory only: better told while the process
// lives than not at all. None that is written down stands behind one that is not.
func (j *Journal) add(event queued, last bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := errBehindUnfiled
	if j.filed == len(j.waiting) {
		err = j.write(record{Event: &event.event})
	}
	switch {
	case err == nil:
		j.filed++
	case !last:
		return fmt.Errorf("%w: %w", ErrNoJournalRoom, err)
	}
	j.waiting = append(j.waiting, event)
	return nil
}

var errBehindUnfiled = errors.New("one before it could not be written either")

// settle notes that the first n events are stored. What cannot be noted is stored again by the next Executor, which the server
// knows by its client_event_id.
func (j *Journal) settle(n int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, gone := range j.waiting[:n] {
		j.dropped += int64(gone.size)
	}
	clear(j.waiting[:n])
	j.waiting = j.waiting[n:]
	noted := min(n, j.filed)
	j.filed -= noted
	switch {
	case len(j.waiting) == 0:
		return j.empty()
	case j.dropped > max(journalSlack, j.size/2):
		return j.rewrite()
	default:
		return j.write(record{Settled: noted})
	}
}

// write appends a record; one that was written in part is taken back.
func (j *Journal) write(next record) error {
	var line bytes.Buffer
	if err := encodeLine(&line, next); err != nil {
		return err
	}
	if _, err := j.file.Write(line.Bytes()); err != nil {
		_, back := j.file.Seek(j.size, io.SeekStart)
		return errors.Join(fmt.Errorf("write journal: %w", err), j.file.Truncate(j.size), back)
	}
	j.size += int64(line.Len())
	return nil
}

// encodeLine writes a value as a line of JSON. A raw payload is compacted by it, which changes none of its values.
func encodeLine(to *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode journal record: %w", err)
	}
	return nil
}

func (j *Journal) empty() error {
	j.size, j.dropped, j.filed = 0, 0, 0
	_, err := j.file.Seek(0, io.SeekStart)
	if err = errors.Join(err, j.file.Truncate(0)); err != nil {
		return fmt.Errorf("empty journal: %w", err)
	}
	return nil
}

// rewrite puts a file with only what is left in the old one's place.
func (j *Journal) rewrite() error {
	draft, err := os.OpenFile(j.path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	fresh := Journal{file: draft}
	for _, left := range j.waiting {
		if err := fresh.write(record{Event: &left.event}); err != nil {
			return errors.Join(err, draft.Close(), os.Remove(draft.Name()))
		}
	}
	// Windows replaces no open file: both are closed for the moment of the change.
	closed := errors.Join(draft.Close(), j.file.Close())
	moved := os.Rename(draft.Name(), j.path)
	file, err := os.OpenFile(j.path, os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", errors.Join(closed, moved, err))
	}
	j.file = file
	if moved == nil {
		j.size, j.dropped, j.filed = fresh.size, 0, len(j.waiting)
	} else {
		j.dropped = 0 // the old file is as good; it is tried again when as much has gathered
	}
	_, err = file.Seek(j.size, io.SeekStart)
	if err := errors.Join(closed, moved, err); err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	return nil
}
