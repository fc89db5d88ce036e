package storage

import (
	"fmt"
	"reflect"
	"time"
)

// bindable turns the arguments a caller may give into nil, string, int64, bool, float64, []string or
// []int64, which both engines take.
func bindable(args []any) ([]any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	bound := make([]any, len(args))
	for i, arg := range args {
		value, err := bindOne(arg)
		if err != nil {
			return nil, fmt.Errorf("bind argument $%d: %w", i+1, err)
		}
		bound[i] = value
	}
	return bound, nil
}

func bindOne(arg any) (any, error) {
	switch value := arg.(type) {
	case nil, string, int64, bool, float64, []string, []int64:
		return value, nil
	case *string:
		return pointed(value), nil
	case *int64:
		return pointed(value), nil
	case []byte:
		if value == nil {
			return nil, nil
		}
		return string(value), nil
	case int:
		return int64(value), nil
	case time.Time:
		return value.UnixMicro(), nil
	case *time.Time:
		if value == nil {
			return nil, nil
		}
		return value.UnixMicro(), nil
	default:
		return bindByKind(reflect.ValueOf(arg))
	}
}

// pointed answers what a pointer points to, or nil.
func pointed[T any](pointer *T) any {
	if pointer == nil {
		return nil
	}
	return *pointer
}

// bindByKind binds named types by what they are made of.
func bindByKind(value reflect.Value) (any, error) {
	switch value.Kind() {
	case reflect.String:
		return value.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return value.Int(), nil
	case reflect.Bool:
		return value.Bool(), nil
	case reflect.Pointer:
		if value.IsNil() {
			return nil, nil
		}
		return bindOne(value.Elem().Interface())
	case reflect.Slice:
		return bindSlice(value)
	default:
		return nil, fmt.Errorf("type %s is not supported", value.Type())
	}
}

func bindSlice(value reflect.Value) (any, error) {
	switch value.Type().Elem().Kind() {
	case reflect.String:
		texts := make([]string, value.Len())
		for i := range texts {
			texts[i] = value.Index(i).String()
		}
		return texts, nil
	case reflect.Uint8:
		if value.IsNil() {
			return nil, nil
		}
		return string(value.Bytes()), nil
	default:
		return nil, fmt.Errorf("type %s is not supported", value.Type())
	}
}

// timeOf turns stored microseconds into a time.
func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// column is where a Row takes its values from.
type column interface {
	null() bool
	text() (string, error)
	integer() (int64, error)
	boolean() (bool, error)
	float() (float64, error)
}

// scanColumn converts one column into one destination.
func scanColumn(from column, dest any) error {
	switch target := dest.(type) {
	case **string:
		return scanNullable(from, target, column.text)
	case **int64:
		return scanNullable(from, target, column.integer)
	case **bool:
		return scanNullable(from, target, column.boolean)
	case **float64:
		return scanNullable(from, target, column.float)
	case **time.Time:
		return scanNullable(from, target, timeColumn)
	case *[]byte:
		return scanBytes(from, target)
	}
	if from.null() {
		return fmt.Errorf("column is NULL, which %T cannot hold", dest)
	}
	switch target := dest.(type) {
	case *string:
		return scanInto(from, target, column.text)
	case *int64:
		return scanInto(from, target, column.integer)
	case *bool:
		return scanInto(from, target, column.boolean)
	case *float64:
		return scanInto(from, target, column.float)
	case *time.Time:
		return scanInto(from, target, timeColumn)
	default:
		return scanByKind(from, reflect.ValueOf(dest))
	}
}

func timeColumn(from column) (time.Time, error) {
	micros, err := from.integer()
	return timeOf(micros), err
}

func scanInto[T any](from column, target *T, convert func(column) (T, error)) error {
	value, err := convert(from)
	if err != nil {
		return err
	}
	*target = value
	return nil
}

func scanNullable[T any](from column, target **T, convert func(column) (T, error)) error {
	if from.null() {
		*target = nil
		return nil
	}
	value := new(T)
	if err := scanInto(from, value, convert); err != nil {
		return err
	}
	*target = value
	return nil
}

func scanBytes(from column, target *[]byte) error {
	if from.null() {
		*target = nil
		return nil
	}
	text, err := from.text()
	if err != nil {
		return err
	}
	*target = []byte(text)
	return nil
}

// scanByKind scans into pointers to named types, by what they are made of.
func scanByKind(from column, dest reflect.Value) error {
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return fmt.Errorf("destination %s is not a pointer", dest.Type())
	}
	target := dest.Elem()
	switch target.Kind() {
	case reflect.String:
		text, err := from.text()
		if err != nil {
			return err
		}
		target.SetString(text)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number, err := from.integer()
		if err != nil {
			return err
		}
		if target.OverflowInt(number) {
			return fmt.Errorf("%d does not fit into %s", number, target.Type())
		}
		target.SetInt(number)
	default:
		return fmt.Errorf("destination %s is not supported", dest.Type())
	}
	return nil
}
