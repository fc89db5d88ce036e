package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/audit"
	"github.com/cairnsync/cairn/internal/storage"
)

func newAudit(a *app) *cobra.Command {
	return a.jsonFlag(group("audit", "Read and check who did what, in the database", []func(*app) *cobra.Command{
		newAuditList, newAuditVerify,
	}, a))
}

// brokenChainError is an audit trail that is not the one that was written.
type brokenChainError struct{ report audit.Report }

// Error answers the first row that is wrong.
func (e *brokenChainError) Error() string {
	return fmt.Sprintf("the audit trail does not hold: row %d: %s", e.report.Broken, e.report.Problem)
}

func newAuditVerify(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "verify", Short: "Check that no row of the audit trail was changed or taken out"}
	cmd.Long = `Check the audit trail of both surfaces from its first row to its last: every row has a number without gaps, and a hash over
itself and the hash before it. Exit status 1 and the first number that is wrong when one was changed or taken out.`
	return a.inOffice(cmd, needsDatabase, func(ctx context.Context, o *office, _ []string) error {
		report, err := audit.Verify(ctx, o.db)
		if err != nil {
			return err
		}
		if report.Broken > 0 {
			if a.json {
				err = a.show(report, nil)
			}
			if err != nil {
				return err
			}
			return &brokenChainError{report}
		}
		return a.show(report, func() error { return a.say("%d rows, and the chain holds", report.Rows) })
	})
}

// auditLines is how many rows are listed when nobody says.
const auditLines = 50

func newAuditList(a *app) *cobra.Command {
	var lines int
	var before int64
	cmd := &cobra.Command{Use: "list", Short: "List what was done, newest first"}
	cmd.Flags().IntVarP(&lines, "lines", "n", auditLines, "list `N` rows")
	cmd.Flags().Int64Var(&before, "before", 0, "only rows before row `SEQ`")
	return a.inOffice(cmd, needsDatabase, func(ctx context.Context, o *office, _ []string) error {
		if lines < 1 || lines > audit.MaxRows || before < 0 {
			return wrongUsage("--lines is 1 to %d, --before is 0 or more", audit.MaxRows)
		}
		rows, err := storage.Read(ctx, o.db, func(tx storage.Tx) ([]audit.Row, error) { return audit.Latest(tx, before, lines) })
		if err != nil {
			return err
		}
		return a.show(map[string]any{"rows": rows}, func() error {
			users, err := o.people.ListUsers(ctx)
			if err != nil {
				return err
			}
			names := map[string]string{}
			for _, user := range users {
				names[user.ID] = user.Name
			}
			cells := make([][]string, len(rows))
			for i, row := range rows {
				by := row.UserID
				if name := names[by]; name != "" {
					by = name
				}
				cells[i] = []string{
					strconv.FormatInt(row.Seq, 10), row.At.Format(time.RFC3339), row.Action, by, auditTarget(row), string(row.Detail),
				}
			}
			return a.table("SEQ AT ACTION BY ON DETAIL", cells, shortTimes("AT", a.env.Now()), shortIDs("BY", never), cut("DETAIL", 24), drop("DETAIL"))
		})
	})
}

func auditTarget(row audit.Row) string {
	switch {
	case row.TargetKind != "":
		return row.TargetKind + " " + row.TargetID
	case row.SessionID != "":
		return "session " + row.SessionID
	case row.OrgID != "":
		return "org " + row.OrgID
	default:
		return "-"
	}
}
