package bench

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairnsync/cairn/internal/storage"
)

// recorder is a database that writes down the statements of its write functions.
type recorder struct {
	storage.DB

	replace    map[string]string         // literals that become variables
	keep       func(query string) string // ends a query whose answer is read, perhaps keeping it in variables
	statements []string
}

func (r *recorder) Write(ctx context.Context, keys []storage.Key, fn func(storage.Tx) error, ahead ...storage.Prefetch) error {
	return r.DB.Write(ctx, keys, func(tx storage.Tx) error {
		r.statements = nil // the function may run again
		recorded := &recordedTx{Tx: tx, recorder: r}
		if err := fn(recorded); err != nil {
			return err
		}
		return recorded.finish()
	}, ahead...)
}

type recordedTx struct {
	storage.Tx

	recorder *recorder
	last     []lastStep
}

// lastStep is what was handed to a last step of the transaction.
type lastStep struct {
	step  *storage.LastStep
	items []any
}

// Finally keeps items until the function has returned: it is alone in its transaction.
func (t *recordedTx) Finally(step *storage.LastStep, items ...any) error {
	for i := range t.last {
		if t.last[i].step == step {
			t.last[i].items = append(t.last[i].items, items...)
			return nil
		}
	}
	t.last = append(t.last, lastStep{step, items})
	return nil
}

// finish runs the last steps, so that they are written down too.
func (t *recordedTx) finish() error {
	slices.SortFunc(t.last, func(a, b lastStep) int { return a.step.Rank - b.step.Rank })
	for _, last := range t.last {
		if err := last.step.Run(t, last.items); err != nil {
			return err
		}
	}
	return nil
}

func (t *recordedTx) note(query string) {
	t.recorder.statements = append(t.recorder.statements, query)
}

// read notes a query whose answer is read.
func (t *recordedTx) read(query string, args []any) {
	t.note(t.recorder.keep(t.recorder.render(query, args)))
}

// Exec is written down.
func (t *recordedTx) Exec(query string, args ...any) error {
	t.note(t.recorder.render(query, args) + ";")
	return t.Tx.Exec(query, args...)
}

// Changed is written down.
func (t *recordedTx) Changed(query string, args ...any) (int64, error) {
	t.note(t.recorder.render(query, args) + ";")
	return t.Tx.Changed(query, args...)
}

// Query is written down.
func (t *recordedTx) Query(query string, args []any, each func(storage.Row) error) error {
	t.read(query, args)
	return t.Tx.Query(query, args, each)
}

// Get is written down. A number that was taken from a counter is known by its value afterwards.
func (t *recordedTx) Get(query string, args []any, dest ...any) (bool, error) {
	t.read(query, args)
	found, err := t.Tx.Get(query, args, dest...)
	if taken, is := dest[0].(*int64); err == nil && is && strings.Contains(query, counterRead) {
		t.recorder.replace[fmt.Sprint(*taken)] = "(:ev_taken)"
	}
	return found, err
}

// counterRead is in the query that reads the last number taken.
const counterRead = "SELECT e.value, p.value FROM sequence_counters e"

// Insert is written down as PostgreSQL executes it.
func (t *recordedTx) Insert(into storage.Table, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	names, columns := make([]string, len(into.Columns)), make([]string, len(into.Columns))
	for i, column := range into.Columns {
		values := make([]string, len(rows))
		for k, row := range rows {
			values[k] = t.recorder.literal(row[i])
		}
		names[i] = column.Name
		columns[i] = "ARRAY[" + strings.Join(values, ", ") + "]::" + string(column.Type) + "[]"
		if len(rows) == 1 {
			columns[i] = values[0]
		}
	}
	form := "INSERT INTO %s (%s) SELECT * FROM unnest(%s);"
	if len(rows) == 1 {
		form = "INSERT INTO %s (%s) VALUES (%s);"
	}
	t.note(fmt.Sprintf(form, into.Name, strings.Join(names, ", "), strings.Join(columns, ", ")))
	return t.Tx.Insert(into, rows)
}

var placeholder = regexp.MustCompile(`\$([0-9]+)`)

// render puts the arguments into a statement and takes its line breaks out.
func (r *recorder) render(query string, args []any) string {
	query = strings.Join(strings.Fields(query), " ")
	return placeholder.ReplaceAllStringFunc(query, func(mark string) string {
		return r.literal(args[int(number(mark[1:]))-1])
	})
}

func (r *recorder) literal(value any) string {
	var text string
	switch v := value.(type) {
	case nil:
		return "NULL"
	case *string:
		if v == nil {
			return "NULL"
		}
		text = quoted(*v)
	case []byte:
		text = quoted(string(v))
	case string:
		text = quoted(v)
	case []string:
		texts := make([]string, len(v))
		for i, one := range v {
			texts[i] = r.literal(one)
		}
		return "ARRAY[" + strings.Join(texts, ", ") + "]"
	case time.Time:
		text = fmt.Sprint(v.UnixMicro())
	default:
		text = fmt.Sprint(v)
		if reflect.ValueOf(v).Kind() == reflect.String {
			text = quoted(text)
		}
	}
	if replaced, found := r.replace[text]; found {
		return replaced
	}
	return text
}

// quoted is a text as a literal. A colon is written by its number: pgbench would take what follows it for a variable.
func quoted(text string) string {
	text = strings.ReplaceAll(text, "'", "''")
	if !strings.Contains(text, ":") {
		return "'" + text + "'"
	}
	return "E'" + strings.NewReplacer(`\`, `\\`, ":", `\072`).Replace(text) + "'"
}
