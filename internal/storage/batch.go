package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Limits of one transaction.
const (
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 2 * time.Second
	// batchTimeout bounds a transaction; the engine's lock and busy time-outs are shorter.
	batchTimeout = 30 * time.Second
)

// outcome is what became of the functions of a batch inside their transaction.
type outcome struct {
	errors  []error // one per function
	effects []func()
	last    []lastItem
	wrote   bool
}

// lastItem is something that a function handed to a last step.
type lastItem struct {
	step *LastStep
	item any
}

// attempt runs the batch in one transaction. On success everybody was answered; after an error
// nothing of the batch is in the database (errors.Is errUnknown excepted) and nobody was answered.
func (l *lane) attempt(batch []*write) error {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	if err := l.connect(ctx); err != nil {
		return err
	}
	started := l.env.Now()
	id := l.env.NewID()
	now, rows, err := l.link.begin(ctx, id, lockSteps(batch), aheadOf(batch))
	if err != nil {
		return l.abandon(ctx, fmt.Errorf("begin transaction: %w", err))
	}
	result, err := l.runFunctions(ctx, batch, now, rows)
	if err == nil {
		err = l.runLast(ctx, &result, now)
	}
	if err != nil {
		return l.abandon(ctx, err)
	}
	if err := l.finish(ctx, id, result); err != nil {
		return err
	}
	runEffects(l.log, result.effects)
	l.observer.batchCommitted(len(batch), started.Sub(batch[0].since), l.env.Now().Sub(started))
	for i, w := range batch {
		w.reply(result.errors[i])
	}
	return nil
}

// runFunctions runs the functions in order. One that fails before it wrote anything has its error;
// any other failure fails the whole transaction.
func (l *lane) runFunctions(ctx context.Context, batch []*write, now time.Time, rows []readAhead) (outcome, error) {
	result := outcome{errors: make([]error, len(batch))}
	var stale staleness
	for i, w := range batch {
		l.link.next(len(w.ahead) > 0)
		tx := l.transaction(ctx, now)
		if mine := min(len(w.ahead), len(rows)); mine > 0 {
			if !stale.concerns(w) {
				tx.ahead = rows[:mine]
			}
			rows = rows[mine:]
		}
		err := tx.call(w.fn)
		if err != nil && (tx.wrote || tx.failed != nil) {
			return outcome{}, err
		}
		result.errors[i] = revealed(err)
		result.wrote = result.wrote || tx.wrote
		if tx.wrote {
			stale.add(w)
		}
		if err == nil {
			result.effects = append(result.effects, tx.effects...)
			result.last = append(result.last, tx.last...)
		}
	}
	return result, nil
}

func (l *lane) transaction(ctx context.Context, now time.Time) *transaction {
	return &transaction{ctx: ctx, session: l.link, text: l.engine.text, clock: func() time.Time { return now }}
}

// runLast runs each last step that was handed something, in the order of the ranks.
func (l *lane) runLast(ctx context.Context, result *outcome, now time.Time) error {
	l.link.next(false)
	items := make(map[*LastStep][]any)
	var steps []*LastStep
	for _, last := range result.last {
		if items[last.step] == nil {
			steps = append(steps, last.step)
		}
		items[last.step] = append(items[last.step], last.item)
	}
	slices.SortStableFunc(steps, func(a, b *LastStep) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, step := range steps {
		tx := l.transaction(ctx, now)
		if err := tx.call(func(tx Tx) error { return step.Run(tx, items[step]) }); err != nil {
			return err
		}
		result.wrote = result.wrote || tx.wrote
		result.effects = append(result.effects, tx.effects...)
	}
	return nil
}

// finish commits, or ends a transaction in which nobody wrote.
func (l *lane) finish(ctx context.Context, id string, result outcome) error {
	if !result.wrote {
		return l.endUnused(ctx)
	}
	sent, err := l.link.commit(ctx)
	if err == nil {
		return nil
	}
	if !sent || l.link.usable() {
		return l.abandon(ctx, fmt.Errorf("commit transaction: %w", err))
	}
	l.disconnect()
	return l.settle(id, err)
}

// endUnused ends a transaction without writes. Should even that fail, there was nothing to lose.
func (l *lane) endUnused(ctx context.Context) error {
	if err := l.link.rollback(ctx); err != nil {
		l.log.Debug("end transaction without writes", "lane", l.id, "error", err)
		l.disconnect()
	}
	return nil
}

// errUnknown is in the error of a write whose commit may have happened.
var errUnknown = errors.New("the outcome of the commit is unknown")

// settle finds out whether a commit happened whose answer was lost: nil means that it did.
func (l *lane) settle(id string, cause error) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	wait := newBackoff(l.env)
	for {
		committed, err := l.ask(id)
		switch {
		case err == nil && committed:
			return nil
		case err == nil:
			return fmt.Errorf("commit transaction: %w", cause)
		case !wait.pause(context.Background(), deadline.C):
			return &unknownError{cause: errors.Join(cause, err)}
		}
	}
}

// ask asks once, on a new connection, whether a batch was committed.
func (l *lane) ask(id string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), batchTimeout)
	defer cancel()
	if err := l.connect(ctx); err != nil {
		return false, err
	}
	committed, err := l.link.committed(ctx, id)
	if err != nil {
		l.disconnect()
	}
	return committed, err
}

// unknownError ends the attempts: running the functions again could apply them twice.
type unknownError struct{ cause error }

func (e *unknownError) Error() string { return fmt.Sprintf("%v: %v", errUnknown, e.cause) }
func (e *unknownError) Unwrap() error { return e.cause }
func (e *unknownError) Is(target error) bool {
	return target == errUnknown
}

// abandon rolls back and hands the cause on. A link that cannot go on is closed.
func (l *lane) abandon(ctx context.Context, cause error) error {
	if err := l.link.rollback(ctx); err != nil || !l.link.usable() {
		l.disconnect()
	}
	return cause
}

func (l *lane) connect(ctx context.Context) error {
	if l.link != nil && l.link.usable() {
		return nil
	}
	l.disconnect()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	link, err := l.engine.dial(ctx, l.id)
	if err != nil {
		return &dialError{err}
	}
	l.link = link
	return nil
}

// dialError is an attempt in vain to connect.
type dialError struct{ cause error }

func (e *dialError) Error() string { return fmt.Sprintf("connect to database: %v", e.cause) }
func (e *dialError) Unwrap() error { return e.cause }

func (l *lane) disconnect() {
	if l.link != nil {
		l.link.close()
		l.link = nil
	}
}

// lockSteps answers the queries that lock every key of the batch, in the one order that all lanes
// and nodes keep: by rank, then by id.
func lockSteps(batch []*write) []lockStep {
	var keys []Key
	for _, w := range batch {
		keys = append(keys, w.keys...)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Lock.Rank, b.Lock.Rank), cmp.Compare(a.Lock.Query, b.Lock.Query), cmp.Compare(a.ID, b.ID))
	})
	keys = slices.Compact(keys)
	var steps []lockStep
	for _, key := range keys {
		if last := len(steps) - 1; last >= 0 && steps[last].query == key.Lock.Query {
			steps[last].ids = append(steps[last].ids, key.ID)
			continue
		}
		steps = append(steps, lockStep{query: key.Lock.Query, ids: []string{key.ID}})
	}
	return steps
}
