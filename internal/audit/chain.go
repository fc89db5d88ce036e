package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/cairnsync/cairn/internal/storage"
)

var table = storage.Table{Name: "audit", Columns: []storage.Column{
	{Name: "id", Type: storage.Text},
	{Name: "at", Type: storage.Bigint},
	{Name: "user_id", Type: storage.Text},
	{Name: "device_id", Type: storage.Text},
	{Name: "action", Type: storage.Text},
	{Name: "session_id", Type: storage.Text},
	{Name: "owner_id", Type: storage.Text},
	{Name: "org_id", Type: storage.Text},
	{Name: "target_kind", Type: storage.Text},
	{Name: "target_id", Type: storage.Text},
	{Name: "detail", Type: storage.Text},
	{Name: "seq", Type: storage.Bigint},
	{Name: "hash", Type: storage.Text},
}}

// link is a row of the chain as its hash covers it: the members in this order, as JSON.
type link struct {
	Seq        int64   `json:"seq"`
	ID         string  `json:"id"`
	At         int64   `json:"at"` // microseconds
	UserID     string  `json:"user_id"`
	DeviceID   *string `json:"device_id"`
	Action     string  `json:"action"`
	SessionID  *string `json:"session_id"`
	OwnerID    *string `json:"owner_id"`
	OrgID      *string `json:"org_id"`
	TargetKind *string `json:"target_kind"`
	TargetID   *string `json:"target_id"`
	Detail     string  `json:"detail"`
}

// hash is the SHA-256, in hex, of the hash before and the row.
func (l link) hash(before string) (string, error) {
	encoded, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode audit row: %w", err)
	}
	sum := sha256.Sum256(append([]byte(before+"\n"), encoded...))
	return hex.EncodeToString(sum[:]), nil
}

// chain numbers and hashes the rows of a transaction (ES-3.3). The counter's row stays locked until the
// commit, so that the last row read after it is the one to go on from.
var chain = &storage.LastStep{Rank: storage.RankAudit, Run: func(tx storage.Tx, items []any) error {
	if err := tx.Exec(`UPDATE sequence_counters SET value = value + $1 WHERE name = 'audit_seq'`, len(items)); err != nil {
		return fmt.Errorf("take audit numbers: %w", err)
	}
	var seq int64
	var hash string
	_, err := tx.Get(`SELECT c.value - $1, coalesce(a.hash, '') FROM sequence_counters c LEFT JOIN audit a ON a.seq = c.value - $1 WHERE c.name = 'audit_seq'`,
		[]any{len(items)}, &seq, &hash)
	if err != nil {
		return fmt.Errorf("read end of audit chain: %w", err)
	}
	rows := make([][]any, len(items))
	for i, item := range items {
		l := item.(link) //nolint:forcetypeassert // Write hands over nothing else
		seq++
		l.Seq = seq
		if hash, err = l.hash(hash); err != nil {
			return err
		}
		rows[i] = []any{
			l.ID, l.At, l.UserID, l.DeviceID, l.Action, l.SessionID, l.OwnerID, l.OrgID, l.TargetKind, l.TargetID, l.Detail, l.Seq, hash,
		}
	}
	if err := tx.Insert(table, rows); err != nil {
		return fmt.Errorf("write audit rows: %w", err)
	}
	return nil
}}

// verifyPage is how many rows are checked in one reading.
const verifyPage = 2000

// Report is what Verify found.
type Report struct {
	Rows int64 `json:"rows"` // that belong to the chain
	// Broken is the first number whose row is missing or is not the one that was written; 0 when the chain holds.
	Broken  int64  `json:"broken,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Verify walks the chain from its first row to the last one given out and answers whether it holds. Rows
// from before the chain began are not part of it.
func Verify(ctx context.Context, db storage.DB) (Report, error) {
	var report Report
	var hash string
	for {
		page, last, err := readPage(ctx, db, report.Rows)
		if err != nil {
			return Report{}, err
		}
		for _, row := range page {
			want := report.Rows + 1
			expected, err := row.hash(hash)
			switch {
			case err != nil:
				return Report{}, err
			case row.Seq != want:
				return report.broken(want, "the row is missing"), nil
			case expected != row.stored:
				return report.broken(want, "the row is not the one that was written"), nil
			}
			hash = row.stored
			report.Rows++
		}
		if len(page) < verifyPage {
			if report.Rows < last {
				return report.broken(report.Rows+1, "the row is missing"), nil
			}
			return report, nil
		}
	}
}

func (r Report) broken(seq int64, problem string) Report {
	r.Broken, r.Problem = seq, problem
	return r
}

// storedLink is a row with the hash that stands beside it.
type storedLink struct {
	link

	stored string
}

// readPage answers the rows after a number, and the last number given out.
func readPage(ctx context.Context, db storage.DB, after int64) (page []storedLink, last int64, err error) {
	err = db.Read(ctx, func(tx storage.Tx) error {
		page = nil
		if _, err := tx.Get(`SELECT value FROM sequence_counters WHERE name = 'audit_seq'`, nil, &last); err != nil {
			return fmt.Errorf("read audit counter: %w", err)
		}
		return tx.Query(
			`SELECT seq, id, at, user_id, device_id, action, session_id, owner_id, org_id, target_kind, target_id, detail, hash
			   FROM audit WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3`,
			[]any{after, last, verifyPage}, func(row storage.Row) error {
				var l storedLink
				err := row.Scan(&l.Seq, &l.ID, &l.At, &l.UserID, &l.DeviceID, &l.Action, &l.SessionID, &l.OwnerID, &l.OrgID,
					&l.TargetKind, &l.TargetID, &l.Detail, &l.stored)
				page = append(page, l)
				return err
			})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read audit chain: %w", err)
	}
	return page, last, nil
}
