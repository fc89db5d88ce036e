package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// transaction is the Tx of one function. On a lane several of them share one engine transaction, one
// after another.
type transaction struct {
	ctx      context.Context
	session  session
	text     func(query string) statement
	clock    func() time.Time
	readOnly bool

	// ahead is what was read before the function began, until it writes.
	ahead   []readAhead
	wrote   bool
	effects []func()
	last    []lastItem
	// failed is the first error of the engine; from then on every statement answers it, so that a
	// function that ignores it cannot make half of itself durable.
	failed error
	// inRow is set while a row callback runs: the connection is busy with that query.
	inRow bool
	ended bool
}

var (
	errEnded = errors.New("the transaction has ended")
	errInRow = errors.New("a statement cannot run inside a row callback; collect the rows first")
	errWrite = errors.New("a statement that writes cannot run in a Read")
	// errFirstRow stops a query after its first row.
	errFirstRow = errors.New("first row")
)

func (tx *transaction) Now() time.Time { return tx.clock() }

func (tx *transaction) AfterCommit(effect func()) { tx.effects = append(tx.effects, effect) }

func (tx *transaction) Finally(step *LastStep, items ...any) error {
	if err := tx.usable(true); err != nil {
		return err
	}
	for _, item := range items {
		tx.last = append(tx.last, lastItem{step, item})
	}
	return nil
}

func (tx *transaction) Exec(query string, args ...any) error {
	stmt, bound, err := tx.prepare(query, args)
	if err != nil {
		return err
	}
	tx.wrote = true
	return tx.remember(tx.session.exec(tx.ctx, stmt, bound))
}

func (tx *transaction) Changed(query string, args ...any) (int64, error) {
	stmt, bound, err := tx.prepare(query, args)
	if err != nil {
		return 0, err
	}
	tx.wrote = true
	changed, err := tx.session.changed(tx.ctx, stmt, bound)
	return changed, tx.remember(err)
}

func (tx *transaction) Query(query string, args []any, each func(Row) error) error {
	stmt, bound, err := tx.prepare(query, args)
	if err != nil {
		return err
	}
	tx.wrote = tx.wrote || stmt.writes
	run := tx.session.query
	if known := tx.takeAhead(query, bound); known != nil {
		run = known.query
	}
	var fromCallback error
	err = run(tx.ctx, stmt, bound, func(row Row) error {
		tx.inRow = true
		defer func() { tx.inRow = false }()
		fromCallback = each(row)
		return fromCallback
	})
	if fromCallback != nil && errors.Is(err, fromCallback) {
		return fromCallback
	}
	return tx.remember(err)
}

func (tx *transaction) Get(query string, args []any, dest ...any) (bool, error) {
	found := false
	err := tx.Query(query, args, func(row Row) error {
		found = true
		if err := row.Scan(dest...); err != nil {
			return err
		}
		return errFirstRow
	})
	if err != nil && !errors.Is(err, errFirstRow) {
		return false, err
	}
	return found, nil
}

func (tx *transaction) Insert(into Table, rows [][]any) error {
	if err := tx.usable(true); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	bound := make([][]any, len(rows))
	for i, row := range rows {
		if len(row) != len(into.Columns) {
			return fmt.Errorf("insert into %s: row %d has %d values for %d columns", into.Name, i, len(row), len(into.Columns))
		}
		values, err := bindable(row)
		if err != nil {
			return fmt.Errorf("insert into %s: %w", into.Name, err)
		}
		bound[i] = values
	}
	tx.wrote = true
	return tx.remember(tx.session.insert(tx.ctx, into, bound))
}

func (tx *transaction) prepare(query string, args []any) (statement, []any, error) {
	stmt := tx.text(query)
	if err := tx.usable(stmt.writes); err != nil {
		return stmt, nil, err
	}
	bound, err := bindable(args)
	return stmt, bound, err
}

func (tx *transaction) usable(writes bool) error {
	switch {
	case tx.ended:
		return errEnded
	case tx.inRow:
		return errInRow
	case tx.readOnly && writes:
		return errWrite
	default:
		return tx.failed
	}
}

func (tx *transaction) remember(err error) error {
	if err != nil && tx.failed == nil {
		tx.failed = err
	}
	return err
}

// call runs fn on the transaction; a failure comes back as a *functionError. What fn leaves behind
// after an error of the engine counts as failed, whatever it answers.
func (tx *transaction) call(fn func(Tx) error) (err error) {
	defer func() {
		tx.ended = true
		if cause := recover(); cause != nil {
			tx.wrote = true // nobody knows what it left behind
			err = &functionError{shown: panicked(cause)}
		}
	}()
	err = fn(tx)
	if err == nil {
		err = tx.failed
	}
	if err != nil {
		return &functionError{shown: err, engine: tx.failed}
	}
	return nil
}

// functionError is the failure of a function inside a transaction.
type functionError struct {
	shown  error // what its caller is told
	engine error // what the engine said, nil when the function decided by itself
}

func (e *functionError) Error() string { return e.shown.Error() }
func (e *functionError) Unwrap() error { return e.shown }

// revealed answers what the caller of a function is told.
func revealed(err error) error {
	if failed, ok := errors.AsType[*functionError](err); ok {
		return failed.shown
	}
	return err
}

// diagnose tells what may be done about a failed transaction. What a function decided is final.
func diagnose(e engine, err error) diagnosis {
	var failed *functionError
	switch {
	case errors.Is(err, errUnknown):
		return lost
	case !errors.As(err, &failed):
		return e.diagnose(err)
	case failed.engine == nil:
		return final
	default:
		return e.diagnose(failed.engine)
	}
}
