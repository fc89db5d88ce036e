package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/identity"
	"github.com/cairnsync/cairn/internal/identity/signin"
	"github.com/cairnsync/cairn/internal/session"
	"github.com/cairnsync/cairn/internal/storage"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// signIns answers the service of sign-ins, beside the servers.
func (o *office) signIns(a *app) *signin.Service {
	return signin.New(signin.Options{
		DB: o.db, Bus: o.bus, Env: a.env, Identity: o.people, Auth: o.loaded.Auth, PublicURL: o.loaded.HTTP.PublicURL,
	})
}

func newUserLoginCode(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "login-code NAME", Short: "Make a code that signs a user in once, within ten minutes"}
	return a.inOffice(cmd, needsDatabase, func(ctx context.Context, o *office, args []string) error {
		made, err := o.signIns(a).MakeLoginCode(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(made, func() error {
			if err := a.say("%s", made.Code); err != nil {
				return err
			}
			a.remark("good once, until " + made.ExpiresAt.UTC().Format(time.RFC3339) + ": `cairn auth login URL`")
			return nil
		})
	})
}

func newUserPassword(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "password NAME", Short: "Set a user's password, read from standard input"}
	return a.inOffice(cmd, needsDatabase, func(ctx context.Context, o *office, args []string) error {
		password, err := a.secret("New password: ")
		if err != nil {
			return err
		}
		if a.interactive {
			again, err := a.secret("Once more: ")
			if err != nil {
				return err
			}
			if again != password {
				return wrongUsage("the two are not the same")
			}
		}
		if err := o.signIns(a).SetPassword(ctx, args[0], password); err != nil {
			return err
		}
		return a.show(map[string]any{"changed": true, "user": args[0]}, func() error { return a.say("the password of %s is set", args[0]) })
	})
}

func newUserHandle(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "handle NAME HANDLE", Short: "Give a user another handle: what follows the @"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		id, err := people.ResolvePerson(ctx, args[0])
		if err != nil {
			return err
		}
		changed, err := people.PatchPrincipal(ctx, identity.Operator(), id, nil, identity.PrincipalPatch{Handle: &args[1]})
		if err != nil {
			return err
		}
		return a.show(changed, func() error { return a.say("%s is @%s", args[0], changed.Handle) })
	})
}

func newUserLink(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "link USER ISSUER SUBJECT", Short: "Let a user sign in as somebody at an OpenID Connect issuer"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		if err := people.LinkExternal(ctx, args[0], args[1], args[2]); err != nil {
			return err
		}
		return a.show(map[string]any{"linked": true, "user": args[0], "issuer": args[1], "subject": args[2]}, func() error {
			return a.say("%s signs in as %s at %s", args[0], args[2], args[1])
		})
	})
}

func newUserDevices(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "devices [USER]", Short: "List devices that sign in to the workspace, of one user or of all"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		users, err := people.ListUsers(ctx)
		if err != nil {
			return err
		}
		only := ""
		if len(args) > 0 {
			if only, err = people.ResolvePerson(ctx, args[0]); err != nil {
				return err
			}
		}
		devices, rows := []wire.Device{}, [][]string{}
		for _, user := range users {
			if only != "" && user.ID != only {
				continue
			}
			some, err := people.WorkspaceDevices(ctx, user.ID)
			if err != nil {
				return err
			}
			for _, device := range some {
				devices = append(devices, device)
				rows = append(rows, []string{
					device.ID, user.Name, string(device.State), device.Platform, device.Name, device.LastSeenAt.UTC().Format(time.RFC3339),
				})
			}
		}
		return a.show(map[string]any{"devices": devices}, func() error {
			return a.table("DEVICE USER STATE PLATFORM NAME SEEN", rows, shortTimes("SEEN", a.env.Now()))
		})
	})
}

func newUserApprove(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "approve DEVICE", Short: "Let a device in that waits for approval, named by its id"}
	return a.administer(cmd, needsDatabase, func(ctx context.Context, people *identity.Service, args []string) error {
		device, err := people.ApproveDevice(ctx, identity.Operator(), args[0])
		if err != nil {
			return err
		}
		return a.show(device, func() error { return a.say("device %s is %s", device.ID, string(device.State)) })
	})
}

func newKeys(a *app) *cobra.Command {
	return a.jsonFlag(group("keys", "Rotate the keys that sign access tokens, in the database", []func(*app) *cobra.Command{newKeysRotate}, a))
}

func newKeysRotate(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "rotate", Short: "Sign access tokens with a new key; those of the one before stay good until they end"}
	return a.inOffice(cmd, needsDatabase, func(ctx context.Context, o *office, _ []string) error {
		id, err := o.signIns(a).RotateKeys(ctx, identity.Operator())
		if err != nil {
			return err
		}
		return a.show(map[string]any{"rotated": true, "key_id": id}, func() error { return a.say("access tokens are signed by key %s", id) })
	})
}

func newRestore(a *app) *cobra.Command {
	return a.jsonFlag(group("restore", "Take a restored backup into use", []func(*app) *cobra.Command{newRestoreFinalize}, a))
}

// finalized is what `restore finalize` answers.
type finalized struct {
	SyncEpoch string `json:"sync_epoch"`
	HeadSeq   int64  `json:"head_seq"`
	SignIns   int64  `json:"sign_ins_ended"`
}

func newRestoreFinalize(a *app) *cobra.Command {
	var force, keepLog bool
	cmd := &cobra.Command{Use: "finalize", Short: "Begin a new timeline after a restore, before the servers start", Args: fits}
	cmd.Long = `Run it once after the database was restored from a backup, with every server stopped. Clients may know events that the
backup does not have; a new epoch tells them to load everything anew. What consumes the log goes on from its head, and
every sign-in ends, because the backup may have brought back revoked ones.`
	from := settingsFlags(cmd, databaseFlag)
	cmd.Flags().BoolVar(&force, "force", false, "also when it looks as if a server ran")
	cmd.Flags().BoolVar(&keepLog, "keep-wal", false, "the -wal file beside a SQLite file is of the backup")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, _, err := from.load(a, cmd.Flags(), nil)
		if err != nil {
			return err
		}
		done, err := a.finalize(cmd.Context(), loaded.Database, force, keepLog)
		if err != nil {
			return err
		}
		return a.show(done, func() error {
			return a.say("the timeline %s begins after event %d; %s ended", done.SyncEpoch, done.HeadSeq, count(int(done.SignIns), "sign-in"))
		})
	}
	return cmd
}

// finalize begins a new timeline. On SQLite it holds the file meanwhile, as a server does.
func (a *app) finalize(ctx context.Context, url string, force, keepLog bool) (done finalized, err error) {
	db, err := storage.Open(ctx, storage.Options{
		URL: url, Env: a.env, Migrate: storage.MigrateRefuse, Lanes: 1, Readers: 1, Server: !force, Restored: !keepLog,
	})
	if refusal, is := errors.AsType[*storage.Refusal](err); is && refusal.Reason == storage.LeftLog {
		return finalized{}, &hintedError{err, "Remove it, and the -shm file beside it. If it is of the backup: --keep-wal"}
	}
	if err != nil {
		return finalized{}, err
	}
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	return storage.Write(ctx, db, []storage.Key{storage.ChangePermissions}, func(tx storage.Tx) (finalized, error) {
		live, err := session.LiveNodes(tx)
		if err != nil {
			return finalized{}, err
		}
		if live > 0 && !force && storage.EngineName(db) == "postgres" {
			return finalized{}, &serversRunError{live}
		}
		ended, err := signin.EndAllSignIns(tx, a.env)
		if err != nil {
			return finalized{}, err
		}
		state, err := eventlog.NewTimeline(tx, a.env.NewID())
		return finalized{SyncEpoch: state.SyncEpoch, HeadSeq: state.Head, SignIns: ended}, err
	})
}

// serversRunError is a restore that is finalized while servers run.
type serversRunError struct{ nodes int64 }

// Error answers how many there are and what to do.
func (e *serversRunError) Error() string {
	return count(int(e.nodes), "server") + " on this database said within the last seconds that it runs\n" +
		"Stop every server first. One that was killed counts for some seconds more; --force does not wait for it."
}
