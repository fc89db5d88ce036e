package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const (
	messageWriters = 64
	messageThreads = 1000
	messageSize    = 200 // characters
)

var messageText = strings.Repeat("x", messageSize)

// measureMessages compares message.create through REST with the same statements, one transaction per message.
func measureMessages(ctx context.Context, b *bench, engine string) ([]Figure, error) {
	p, err := b.premises(ctx, engine)
	if err != nil {
		return nil, err
	}
	base, what, err := b.singleMessages(ctx, p, engine)
	if err != nil {
		return nil, errors.Join(err, p.db.Close())
	}
	perSecond, cpu, err := b.messageRate(ctx, p)
	f := Figure{
		Scenario: "message", Engine: engine, Unit: "messages/s", Value: perSecond, CPU: cpu,
		Load: fmt.Sprintf("%d writers over %d threads, REST with DPoP, %d characters, acknowledged when durable", messageWriters, messageThreads, messageSize),
	}.against(what, base)
	if engine == postgres {
		return []Figure{f.goal("≥ 6", f.Ratio >= 6)}, err
	}
	return []Figure{f.goal("≥ 2", f.Ratio >= 2)}, err
}

// messageRate lets 64 people write and answers messages per second, and the server's CPU seconds per million.
func (b *bench) messageRate(ctx context.Context, p *premises) (perSecond, cpu float64, err error) {
	people, err := p.people(ctx, messageWriters)
	if err != nil {
		return 0, 0, err
	}
	crowd, err := p.crowd(ctx, people)
	if err != nil {
		return 0, 0, err
	}
	channels, err := p.channels(ctx, 1, crowd)
	if err != nil {
		return 0, 0, err
	}
	threads, err := p.threads(ctx, channels[0].ID, messageThreads)
	if err != nil {
		return 0, 0, err
	}
	codes, err := p.codes(ctx, people)
	if err != nil {
		return 0, 0, err
	}
	s, err := b.serve(ctx, p)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	seats, err := s.seats(ctx, codes)
	if err != nil {
		return 0, 0, err
	}
	desks, err := s.desks(ctx, seats)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range desks {
		defer d.close()
	}
	before := s.cpu()
	perSecond, err = rate(ctx, messageWriters, b.span(), func(worker, round int) error {
		thread := threads[(worker+round*messageWriters)%len(threads)]
		return desks[worker].send("/api/v1/threads/"+thread+"/messages", message(messageSize))
	})
	return perSecond, (s.cpu() - before) / (perSecond * b.span().Seconds()) * 1e6, err
}

// desks opens a connection for each seat, which is used at once: the server closes one that says nothing.
func (s *site) desks(ctx context.Context, seats []*seat) ([]*poster, error) {
	nonce, err := s.nonce(ctx)
	if err != nil {
		return nil, err
	}
	desks := make([]*poster, len(seats))
	for i, one := range seats {
		if desks[i], err = s.desk(ctx, one, nonce); err != nil {
			return nil, err
		}
	}
	return desks, nil
}

// singleMessages is the rate of the same statements with one commit per message: on PostgreSQL by its own load
// generator, on SQLite by a single writer, which there is only one of.
func (b *bench) singleMessages(ctx context.Context, p *premises, engine string) (float64, string, error) {
	channels, err := p.channels(ctx, 1, "")
	if err != nil {
		return 0, "", err
	}
	if engine == postgres {
		threads, err := p.threads(ctx, channels[0].ID, messageThreads)
		if err != nil {
			return 0, "", err
		}
		rate, err := b.pgbenchMessages(ctx, p, threads)
		return rate, "pgbench, 64 clients, the same statements, a transaction each", err
	}
	threads, err := p.threads(ctx, channels[0].ID, messageWriters)
	if err != nil {
		return 0, "", err
	}
	perSecond, err := rate(ctx, 1, b.span(), func(_, round int) error {
		in := wire.NewMessage{ClientMsgID: p.env.NewID(), ContentMD: messageText}
		_, _, err := p.domain.CreateMessage(ctx, p.owner, threads[round%len(threads)], in)
		return err
	})
	return perSecond, "the domain alone, one commit per message, no HTTP", err
}

// recordedSeq is where the thread of the recorded message stands, so that its next number is like no other value.
const recordedSeq = 7_000_000

// pgbenchMessages runs the statements of message.create, as they are, from 64 clients, each a transaction of its own.
func (b *bench) pgbenchMessages(ctx context.Context, p *premises, threads []string) (float64, error) {
	script, err := b.messageScript(ctx, p, threads)
	if err != nil {
		return 0, err
	}
	return b.runPgbench(ctx, script, messageWriters)
}

// messageScript writes down what one message.create executes. The thread, the author, the ids and the numbers become
// variables: a script cannot make UUIDs, but names with a number.
func (b *bench) messageScript(ctx context.Context, p *premises, threads []string) (string, error) {
	run := b.env.RandomID()[:8]
	recorded := threads[len(threads)-1]
	if err := b.renameThreads(ctx, p, run, threads[:len(threads)-1]); err != nil {
		return "", err
	}
	clientID, thread, author := b.env.NewID(), "('"+run+"-t' || :t)", "('"+run+"-p' || :client_id)"
	r := &recorder{DB: p.db, keep: keepThread, replace: map[string]string{
		quoted(recorded):            thread,
		quoted(p.owner.Principal):   author,
		quoted(clientID):            "('" + run + "-c' || :n)",
		fmt.Sprint(recordedSeq + 1): "(:th_last_message_seq + 1)",
	}}
	domain := domainOn(r, b.env)
	warm := wire.NewMessage{ClientMsgID: b.env.NewID(), ContentMD: messageText} // its permissions are read once
	if _, _, err := domain.CreateMessage(ctx, p.owner, recorded, warm); err != nil {
		return "", err
	}
	if err := p.db.Write(ctx, nil, func(tx storage.Tx) error {
		return tx.Exec(`UPDATE threads SET last_message_seq = $1 WHERE id = $2`, int64(recordedSeq), recorded)
	}); err != nil {
		return "", err
	}
	made, _, err := domain.CreateMessage(ctx, p.owner, recorded, wire.NewMessage{ClientMsgID: clientID, ContentMD: messageText})
	if err != nil {
		return "", err
	}
	locks := []string{
		r.render(storage.LockPrincipals.Query, []any{[]string{p.owner.Principal}}) + ";",
		r.render(storage.LockThreads.Query, []any{[]string{recorded}}) + ";",
	}
	begin := []string{fmt.Sprintf(`\set t random(0, %d)`, len(threads)-2), `\set n random(1, 9000000000000000000)`, "BEGIN;"}
	script := strings.Join(slices.Concat(begin, locks, []string{"SELECT clock_timestamp();"}, r.statements, []string{"COMMIT;"}), "\n")
	return strings.ReplaceAll(script, quoted(made.ID), "('"+run+"-m' || :n)"), nil
}

// keepThread keeps where the thread stands, and the numbers taken from the counter.
func keepThread(query string) string {
	switch {
	case strings.Contains(query, " FROM threads t "):
		return "SELECT th.last_message_seq FROM (" + query + ") th \\gset th_"
	case strings.Contains(query, counterRead):
		return strings.Replace(query, "e.value, p.value", "e.value AS taken, p.value AS permissions", 1) + " \\gset ev_"
	default:
		return query + ";"
	}
}

// renameThreads gives threads names that a script can make, and adds an author for every client.
func (b *bench) renameThreads(ctx context.Context, p *premises, run string, threads []string) error {
	return p.db.Write(ctx, nil, func(tx storage.Tx) error {
		for i, id := range threads {
			if err := tx.Exec(`UPDATE threads SET id = $1 WHERE id = $2`, fmt.Sprintf("%s-t%d", run, i), id); err != nil {
				return err
			}
		}
		authors := make([][]any, messageWriters)
		for i := range authors {
			id := fmt.Sprintf("%s-p%d", run, i)
			authors[i] = []any{id, "user", id, "Bench", "active", tx.Now()}
		}
		return tx.Insert(principalsTable, authors)
	})
}
