package transfer

import (
	"context"
	"fmt"
	"strings"

	client "github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	// batchMessages and batchBytes are when a thread has enough for a batch.
	batchMessages = 200
	batchBytes    = 1 << 20
	// waitingThreads and waitingBytes are when everything that waits is handed over.
	waitingThreads = 2000
	waitingBytes   = 16 << 20
)

// key names a thread within an export.
type key struct{ channel, thread string }

// batcher collects messages by thread until they make a batch.
type batcher struct {
	run     *run
	waiting map[key]*pending
	order   []key // as they began to wait
	bytes   int
	// channels are those that had a message.
	channels map[string]bool
	// closed are the channels that take no more, because they were archived on the server.
	closed map[string]bool
}

// pending is a batch that grows.
type pending struct {
	batch wire.ImportBatch
	seen  map[string]bool // source ids of its messages
	bytes int
}

func newBatcher(r *run) *batcher {
	return &batcher{run: r, waiting: map[key]*pending{}, channels: map[string]bool{}, closed: map[string]bool{}}
}

// add takes a message; a long one becomes several.
func (b *batcher) add(ctx context.Context, channel wire.ImportChannel, thread wire.ImportThread, m wire.ImportMessage) error {
	b.channels[channel.SourceID] = true
	b.run.report.Channels = len(b.channels)
	for _, part := range parts(m, b.run.MaxChars) {
		if err := b.addPart(ctx, channel, thread, part); err != nil {
			return err
		}
	}
	return nil
}

func (b *batcher) addPart(ctx context.Context, channel wire.ImportChannel, thread wire.ImportThread, m wire.ImportMessage) error {
	if b.closed[channel.SourceID] {
		b.run.left(ofArchived(channel.Name))
		return nil
	}
	k := key{channel.SourceID, thread.SourceID}
	p := b.waiting[k]
	if p == nil {
		if len(b.waiting) >= waitingThreads {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
		p = &pending{batch: wire.ImportBatch{Channel: channel, Thread: thread}, seen: map[string]bool{}}
		b.waiting[k] = p
		b.order = append(b.order, k)
	}
	if p.seen[m.SourceID] {
		b.run.report.Known++ // the export says it twice
		return nil
	}
	p.seen[m.SourceID] = true
	p.batch.Messages = append(p.batch.Messages, m)
	size := sizeOf(&m)
	p.bytes += size
	b.bytes += size
	switch {
	case len(p.batch.Messages) >= batchMessages, p.bytes >= batchBytes:
		return b.send(ctx, k)
	case b.bytes >= waitingBytes:
		return b.flush(ctx)
	default:
		return nil
	}
}

// sizeOf is about what a message takes.
func sizeOf(m *wire.ImportMessage) int {
	const fields = 300
	return fields + len(m.ContentMD) + len(m.Reactions)*fields/2
}

// flush hands over everything that waits.
func (b *batcher) flush(ctx context.Context) error {
	for len(b.order) > 0 {
		if err := b.send(ctx, b.order[0]); err != nil {
			return err
		}
	}
	return nil
}

// send hands over what waits of one thread.
func (b *batcher) send(ctx context.Context, k key) error {
	if err := b.run.begin(ctx); err != nil {
		return err
	}
	p := b.waiting[k]
	receipt, err := b.run.target.ImportBatch(ctx, b.run.report.Import.ID, p.batch)
	refused := b.takesNoMore(err, p)
	if err != nil && !refused {
		return fmt.Errorf("apply %d messages of %s: %w", len(p.batch.Messages), p.batch.Channel.Name, err)
	}
	delete(b.waiting, k)
	for i := range b.order {
		if b.order[i] == k {
			b.order = append(b.order[:i], b.order[i+1:]...)
			break
		}
	}
	b.bytes -= p.bytes
	if !refused {
		b.applied(&receipt)
	}
	return nil
}

// applied counts a batch that the server took.
func (b *batcher) applied(receipt *wire.ImportReceipt) {
	report := &b.run.report
	report.Import = receipt.Import
	report.Batches++
	report.Added += receipt.Added
	report.Known += receipt.Known
	if b.run.Progress != nil {
		b.run.Progress(*report)
	}
}

// takesNoMore reports whether a batch was refused because its channel was archived or its thread moved elsewhere since
// (ES-15.8). Its messages are left out and counted, and the rest of the export goes on.
func (b *batcher) takesNoMore(err error, p *pending) bool {
	refused := client.AsProblem(err)
	if refused == nil || code.Code(refused.Code) != code.Conflict {
		return false
	}
	var what string
	switch {
	case strings.HasPrefix(refused.Detail, "The channel was archived"):
		b.closed[p.batch.Channel.SourceID] = true
		what = ofArchived(p.batch.Channel.Name)
	case strings.HasPrefix(refused.Detail, "The thread was moved"):
		what = "messages of threads that were moved to another channel"
	default:
		return false
	}
	b.run.report.Left[what] += int64(len(p.batch.Messages))
	return true
}

func ofArchived(channel string) string { return "messages of the archived channel " + channel }

// parts cuts a message that is too long, at the ends of lines and words where there are some.
func parts(m wire.ImportMessage, most int) []wire.ImportMessage {
	text := []rune(m.ContentMD)
	if len(text) <= most {
		return []wire.ImportMessage{m}
	}
	var all []wire.ImportMessage
	for n := 1; len(text) > 0; n++ {
		end := cut(text, most)
		part := m
		part.ContentMD = strings.TrimSpace(string(text[:end]))
		if n > 1 {
			part.SourceID = fmt.Sprintf("%s#%d", m.SourceID, n)
			part.Reactions, part.Pinned, part.ReplyToSourceID = nil, false, ""
		}
		text = text[end:]
		if part.ContentMD != "" {
			all = append(all, part)
		}
	}
	return all
}

// cut answers where a text of at most so many characters ends well.
func cut(text []rune, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for _, mark := range []rune{'\n', ' '} {
		for end := most; end > most/2; end-- {
			if text[end-1] == mark {
				return end
			}
		}
	}
	return most
}

const (
	maxSource   = 200
	maxName     = 100
	maxTopic    = 1000
	maxTitle    = 80
	maxPerson   = 200
	maxReaction = 200
)

// clean makes a text one that a server takes: valid, without NUL, at most so many characters.
func clean(text string, most int) string {
	text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", ""))
	if len(text) <= most {
		return text
	}
	runes := []rune(text)
	return strings.TrimSpace(string(runes[:min(len(runes), most)]))
}

// content is clean without a bound: what is long becomes several messages.
func content(text string) string { return clean(text, len(text)+3*len("\uFFFD")) }

// title names a thread after the beginning of its first message.
func title(text, otherwise string) string {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.Trim(line, " \t*_~`#>-")
		if line == "" {
			continue
		}
		short := clean(line, maxTitle)
		if short != line {
			short += "…"
		}
		return short
	}
	return otherwise
}
