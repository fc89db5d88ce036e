package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/storage"
)

func newMigrate(a *app) *cobra.Command {
	return a.jsonFlag(group("migrate", "See and update the database's schema", []func(*app) *cobra.Command{
		newMigrateStatus, newMigrateUp,
	}, a))
}

func newMigrateStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Print how far the schema is; changes nothing"}
	return a.onDatabase(cmd, func(ctx context.Context, url string) error {
		return a.printSchema(ctx, url)
	})
}

func newMigrateUp(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "up", Short: "Bring the schema up to date; there is no way back but a backup"}
	return a.onDatabase(cmd, func(ctx context.Context, url string) error {
		made := isNew(ctx, url)
		if err := storage.Migrate(ctx, url); err != nil {
			return err
		}
		if made {
			a.remark("made " + databaseName(url))
		}
		return a.printSchema(ctx, url)
	})
}

// onDatabase gives a command its flags, and runs do with the URL of the database.
func (a *app) onDatabase(cmd *cobra.Command, do func(ctx context.Context, url string) error) *cobra.Command {
	from := settingsFlags(cmd, databaseFlag)
	cmd.Args = fits
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, _, err := from.load(a, cmd.Flags(), nil)
		if err != nil {
			return err
		}
		return do(cmd.Context(), loaded.Database)
	}
	return cmd
}

// schemaInfo is a storage.Status as it is printed.
type schemaInfo struct {
	Current int64    `json:"current"`
	Latest  int64    `json:"latest"`
	Pending []string `json:"pending"`
}

func (a *app) printSchema(ctx context.Context, url string) error {
	status, err := storage.MigrationStatus(ctx, url)
	if err != nil {
		return err
	}
	info := schemaInfo{Current: status.Current, Latest: status.Latest, Pending: []string{}}
	for _, migration := range status.Pending {
		info.Pending = append(info.Pending, migration.Name)
	}
	return a.show(info, func() error {
		line := fmt.Sprintf("the schema has version %d of %d", info.Current, info.Latest)
		if len(info.Pending) == 0 {
			return a.say("%s", line)
		}
		return a.say("%s; `cairn migrate up` applies %d more", line, len(info.Pending))
	})
}
