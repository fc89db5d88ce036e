package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/service"
	"github.com/cairnsync/cairn/internal/signal"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// closeTimeout bounds how long an administration command waits to tell running servers what changed.
const closeTimeout = 2 * time.Second

// Whether a command makes the database where there is none: only one that begins something may, or a
// misspelt name would become an empty database.
const (
	makesDatabase = true
	needsDatabase = false
)

// office is what administration beside the servers works with.
type office struct {
	db     storage.DB
	bus    signal.Bus
	people *identity.Service
	loaded config.Config
}

// administer gives a command its flags, and runs do with the identities of the database. It works beside
// running servers: they hear of the change, or see it within a second.
func (a *app) administer(cmd *cobra.Command, makes bool, do func(context.Context, *identity.Service, []string) error) *cobra.Command {
	return a.inOffice(cmd, makes, func(ctx context.Context, o *office, args []string) error { return do(ctx, o.people, args) })
}

// inOffice is administer with everything that is there.
func (a *app) inOffice(cmd *cobra.Command, makes bool, do func(context.Context, *office, []string) error) *cobra.Command {
	from := settingsFlags(cmd, databaseFlag)
	cmd.Args = fits
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		loaded, _, err := from.load(a, cmd.Flags(), nil)
		if err != nil {
			return err
		}
		db, err := a.openDatabase(cmd.Context(), loaded.Database, makes)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		var services service.Group
		bus := a.joinBus(&services, loaded.Database)
		if err := services.Start(cmd.Context()); err != nil {
			return err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), closeTimeout)
			defer cancel()
			err = errors.Join(err, services.Stop(ctx))
		}()
		return do(cmd.Context(), &office{db: db, bus: bus, people: identity.New(db, bus, a.env), loaded: loaded}, args)
	}
	return cmd
}

// openDatabase opens a database, and makes one where there is none if it may. An old one stays as it is: servers
// of its version may be running.
func (a *app) openDatabase(ctx context.Context, url string, makes bool) (storage.DB, error) {
	mode := storage.MigrateRefuse
	made := makes && isNew(ctx, url)
	if made {
		mode = storage.MigrateUp
	}
	db, err := storage.Open(ctx, storage.Options{URL: url, Env: a.env, Migrate: mode, Lanes: 1, Readers: 1})
	if err == nil && made {
		a.remark("made " + databaseName(url))
	}
	return db, err
}

// isNew is true when it is known that there is nothing in a database yet.
func isNew(ctx context.Context, url string) bool {
	status, err := storage.MigrationStatus(ctx, url)
	return err == nil && status.Current == 0
}

// databaseName is which database a URL names, with the whole path of a file: from another folder it is another one.
func databaseName(url string) string {
	path, isFile := strings.CutPrefix(url, "sqlite:")
	if !isFile {
		return "the tables of " + config.RedactDatabase(url)
	}
	whole, err := filepath.Abs(strings.TrimPrefix(path, "//"))
	if err != nil {
		return url
	}
	return "sqlite:" + whole
}

// joinBus answers a bus to running servers. Servers on a SQLite file watch the file itself.
func (a *app) joinBus(services *service.Group, url string) signal.Bus {
	if strings.HasPrefix(url, "sqlite:") {
		return signal.NewLocal()
	}
	bus := signal.NewPostgres(url, a.env, slog.New(slog.DiscardHandler))
	services.Add("wake-ups", bus)
	return bus
}

func newUser(a *app) *cobra.Command {
	return a.jsonFlag(group("user", "Add, list and disable users, in the database", []func(*app) *cobra.Command{
		newUserAdd, newUserList, newUserDisable, newUserEnable, newUserLoginCode, newUserPassword, newUserHandle, newUserDevices,
		newUserApprove, newUserLink,
	}, a))
}

func newUserAdd(a *app) *cobra.Command {
	var email string
	cmd := &cobra.Command{Use: "add NAME", Short: "Add a user with a first key, which is shown once"}
	cmd.Flags().StringVar(&email, "email", "", "`ADDRESS` that others can share with")
	return a.administer(cmd, makesDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		added, err := people.AddUser(ctx, args[0], given(email))
		if err != nil {
			return err
		}
		return a.show(added, func() error { return a.sayKey(added.UserID, added.APIKey) })
	})
}

// sayKey shows a new key, in a form to be taken over into a shell.
func (a *app) sayKey(userID, key string) error {
	return a.say("user %s\nThe key is not shown again:\nexport %s=%s", userID, envKey, key)
}

func newUserList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List users"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, _ []string) error {
		users, err := people.ListUsers(ctx)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"users": users}, func() error {
			rows := make([][]string, len(users))
			for i, user := range users {
				rows[i] = []string{
					user.ID, user.Name, orDash(user.Email), strconv.Itoa(user.LiveKeys), user.CreatedAt.String(), orNever(user.DisabledAt),
				}
			}
			return a.table("USER NAME EMAIL KEYS CREATED DISABLED", rows)
		})
	})
}

func orNever(at *wire.Time) string {
	if at == nil {
		return "-"
	}
	return at.String()
}

func newUserDisable(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "disable USER", Short: "Shut a user out: no key works any more, streams and sign-ins end"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		if err := people.DisableUser(ctx, args[0]); err != nil {
			return err
		}
		return a.show(map[string]any{"disabled": true, "user": args[0]}, func() error { return a.say("%s is disabled", args[0]) })
	})
}

func newUserEnable(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "enable USER", Short: "Let a disabled user in again"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		id, err := people.ResolvePerson(ctx, args[0])
		if err != nil {
			return err
		}
		enabled, err := people.EnablePrincipal(ctx, identity.Operator(), id)
		if err != nil {
			return err
		}
		return a.show(enabled, func() error { return a.say("%s is enabled", args[0]) })
	})
}

func newKey(a *app) *cobra.Command {
	return a.jsonFlag(group("key", "Add, list and revoke API keys, in the database", []func(*app) *cobra.Command{
		newKeyAdd, newKeyList, newKeyRevoke,
	}, a))
}

func newKeyAdd(a *app) *cobra.Command {
	var label string
	cmd := &cobra.Command{Use: "add USER", Short: "Add a key for a user, named by id or name; it is shown once"}
	cmd.Flags().StringVar(&label, "label", "", "`TEXT` to know the key by")
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		added, err := people.AddKey(ctx, args[0], label)
		if err != nil {
			return err
		}
		return a.show(added, func() error { return a.sayKey(added.UserID, added.APIKey) })
	})
}

func newKeyList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list [USER]", Short: "List keys, of one user or of all"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		keys, err := people.ListKeys(ctx, strings.Join(args, ""))
		if err != nil {
			return err
		}
		return a.show(map[string]any{"keys": keys}, func() error {
			rows := make([][]string, len(keys))
			for i, key := range keys {
				rows[i] = []string{key.ID, key.UserName, key.Label, "…" + key.Hint, key.CreatedAt.String(), orNever(key.RevokedAt)}
			}
			return a.table("KEY USER LABEL HINT CREATED REVOKED", rows)
		})
	})
}

func newKeyRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke KEY", Short: "Revoke a key, named by its id: its streams end within a second"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		if err := people.RevokeKey(ctx, args[0]); err != nil {
			return err
		}
		return a.show(map[string]any{"revoked": true, "key_id": args[0]}, func() error { return a.say("key %s is revoked", args[0]) })
	})
}
