package storage

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// postgresRow is a row as it came.
type postgresRow struct {
	raw    [][]byte
	fields []pgconn.FieldDescription
	types  *pgtype.Map
}

func (r postgresRow) Scan(dest ...any) error {
	if len(dest) != len(r.raw) {
		return fmt.Errorf("scan row: %d columns into %d destinations", len(r.raw), len(dest))
	}
	for i := range dest {
		if err := scanColumn(postgresColumn{r.raw[i], &r.fields[i], r.types}, dest[i]); err != nil {
			return fmt.Errorf("scan column %s: %w", r.fields[i].Name, err)
		}
	}
	return nil
}

// postgresColumn converts the common types itself and leaves the others to pgx.
type postgresColumn struct {
	raw   []byte
	field *pgconn.FieldDescription
	types *pgtype.Map
}

func (c postgresColumn) null() bool { return c.raw == nil }

func (c postgresColumn) text() (string, error) {
	switch c.field.DataTypeOID {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.UnknownOID, pgtype.JSONOID:
		return string(c.raw), nil
	}
	return scanBy[string](c)
}

func (c postgresColumn) integer() (int64, error) {
	if c.field.Format == pgtype.BinaryFormatCode {
		switch c.field.DataTypeOID {
		case pgtype.Int8OID:
			return int64(binary.BigEndian.Uint64(c.raw)), nil
		case pgtype.Int4OID:
			return int64(int32(binary.BigEndian.Uint32(c.raw))), nil
		}
	}
	return scanBy[int64](c)
}

func (c postgresColumn) boolean() (bool, error) {
	if c.field.DataTypeOID == pgtype.BoolOID && c.field.Format == pgtype.BinaryFormatCode {
		return c.raw[0] != 0, nil
	}
	return scanBy[bool](c)
}

func (c postgresColumn) float() (float64, error) {
	if c.field.DataTypeOID == pgtype.Float8OID && c.field.Format == pgtype.BinaryFormatCode {
		return math.Float64frombits(binary.BigEndian.Uint64(c.raw)), nil
	}
	return scanBy[float64](c)
}

func scanBy[T any](c postgresColumn) (T, error) {
	var value T
	err := c.types.Scan(c.field.DataTypeOID, c.field.Format, c.raw, &value)
	return value, err
}
