package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	client "github.com/cairnsync/cairn/client/sessions"
	agentrun "github.com/cairnsync/cairn/internal/agent/run"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func newSession(a *app) *cobra.Command {
	commands := []func(*app) *cobra.Command{newSessionCreate, newSessionList, newSessionShow, newTail, newSessionAsks, newSessionPushes, newSessionNotify}
	for _, c := range controlCommands {
		commands = append(commands, c.command)
	}
	commands = append(commands, newShare, newShares, newUnshare, newArchive, newDelete)
	return a.jsonFlag(group("session", "Open, watch, steer and share sessions", commands, a))
}

// unreachableError is a server that does not answer.
type unreachableError struct {
	url   string
	cause error
}

// Error answers which server, why, and what to do.
func (e *unreachableError) Error() string {
	return fmt.Sprintf("cannot reach %s (%v)\nIs the server running there? %s says where it is.", e.url, e.cause, envURL)
}

// Unwrap answers the cause.
func (e *unreachableError) Unwrap() error { return e.cause }

// asking makes a command's RunE out of what it does with the server.
func (a *app) asking(do func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		connected, err := a.connect()
		if err != nil {
			return err
		}
		defer connected.Close()
		err = do(cmd.Context(), connected, args)
		var (
			network net.Error
			printed *printError
			broken  *agentrun.StartError
		)
		if errors.As(err, &printed) || errors.As(err, &broken) {
			return err // a full disk, or a program that is not there, is an error of the system too, but not of the network
		}
		if !errors.As(err, &network) || client.AsAPIError(err) != nil {
			return err
		}
		if _, local := network.(syscall.Errno); local { // the network's own come in an error of net or of http, found first
			return err // of a file: it only looks like a net.Error
		}
		return &unreachableError{a.baseURL(), network}
	}
}

func newSessionCreate(a *app) *cobra.Command {
	var asked client.NewSession
	cmd := &cobra.Command{Use: "create", Short: "Create a session, or find the one with this key", Args: fits}
	cmd.Flags().StringVar(&asked.SessionKey, "key", "", "your own `NAME` for it (default: a random one)")
	cmd.Flags().StringVar(&asked.Title, "title", "", "`TITLE` to show")
	cmd.Flags().BoolVar(&asked.E2E, "e2e", false, "executors will send sealed payloads")
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
		created, err := c.CreateSession(ctx, asked)
		if err != nil {
			return err
		}
		return a.show(created.Session, func() error {
			verb := "found"
			if created.New {
				verb = "created"
			}
			if asked.SessionKey == "" {
				return a.say("%s session %s", verb, created.ID)
			}
			return a.say("%s session %s; %s names it too", verb, created.ID, created.SessionKey)
		})
	})
	return cmd
}

// Bounds of `session list` (SS-SES-2).
const (
	listLimit    = 50
	maxListLimit = 200
)

func newSessionList(a *app) *cobra.Command {
	var (
		options client.ListOptions
		shared  bool
	)
	cmd := &cobra.Command{Use: "list", Short: "List your sessions and those shared with you", Args: fits}
	cmd.Flags().IntVar(&options.Limit, "limit", listLimit, "at most `N` own and N shared ones")
	cmd.Flags().BoolVar(&options.Archived, "archived", false, "also archived ones")
	cmd.Flags().BoolVar(&shared, "shared", false, "only those shared with you")
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
		if options.Limit < 1 || options.Limit > maxListLimit {
			return wrongUsage("--limit is 1 to %d", maxListLimit)
		}
		if shared {
			return a.listShared(ctx, c, options.Archived)
		}
		sessions, err := c.ListSessions(ctx, options)
		if err != nil {
			return err
		}
		return a.show(map[string]any{"sessions": sessions}, func() error {
			rows := make([][]string, len(sessions))
			for i, s := range sessions {
				rows[i] = append(sessionRow(s.Session, s.Role), strconv.Itoa(s.PresenceCount))
			}
			return a.table("ID KEY TITLE ROLE EVENTS ACTIVE EXECUTOR OPEN", rows, a.narrowSessions()...)
		})
	})
	return cmd
}

func (a *app) listShared(ctx context.Context, c *client.Client, archived bool) error {
	sessions, err := c.SharedWithMe(ctx, archived)
	if err != nil {
		return err
	}
	return a.show(map[string]any{"sessions": sessions}, func() error {
		rows := make([][]string, len(sessions))
		for i, s := range sessions {
			rows[i] = append(sessionRow(s.Session, s.Role), s.ShareID)
		}
		return a.table("ID KEY TITLE ROLE EVENTS ACTIVE EXECUTOR SHARE", rows, a.narrowSessions()...)
	})
}

func sessionRow(s wire.Session, role wire.Role) []string {
	executor := "-"
	if s.ExecutorDeviceID != nil {
		executor = render.Short(*s.ExecutorDeviceID)
	}
	return []string{
		s.ID, ownKey(s), shown(s.Title), string(role), strconv.FormatInt(s.LastSeq, 10),
		s.LastEventAt.UTC().Format(time.DateTime) + "Z", executor,
	}
}

// columnWidth bounds a column of text that people choose; `session show` and --json have the whole of it.
const columnWidth = 40

// shown answers a title as far as a column goes.
func shown(title *string) string { return view.Cut(render.Clean(orDash(title)), columnWidth) }

// ownKey answers the key of a session that somebody chose; one the server made says nothing.
func ownKey(s wire.Session) string {
	if _, random := env.ParseID(s.SessionKey); random {
		return "-"
	}
	return view.Cut(render.Clean(s.SessionKey), columnWidth)
}

func newSessionShow(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "show SESSION", Short: "Show a session and who takes part", Args: fits}
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		detail, err := c.GetSession(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(detail, func() error { return a.printDetail(detail) })
	})
	return cmd
}

func (a *app) printDetail(detail wire.SessionDetail) error {
	executor := "-"
	if detail.Lease != nil {
		executor = detail.Lease.DeviceID + " until " + detail.Lease.ExpiresAt.String()
		if name := deviceNames(detail)[detail.Lease.DeviceID]; name != "" {
			executor = name + ", " + executor
		}
	}
	last := "none yet"
	if detail.LastSeq > 0 {
		last = strconv.FormatInt(detail.LastSeq, 10) + ", at " + detail.LastEventAt.String()
	}
	err := a.table("SESSION "+detail.ID, [][]string{
		{"key", detail.SessionKey},
		{"title", orDash(detail.Title)},
		{"your role", string(detail.Role)},
		{"created", detail.CreatedAt.String()},
		{"last event", last},
		{"executor", executor},
		{"you are pushed", orDash(given(string(detail.Notify)))},
		{"sealed", yesNo(detail.E2E)},
		{"archived", yesNo(detail.Archived)},
	})
	if err != nil {
		return err
	}
	open := map[string]wire.Presence{}
	for _, presence := range detail.Presence {
		open[presence.DeviceID] = presence
	}
	var rows [][]string
	for _, member := range detail.Members {
		user := member.UserID
		if !member.Remote {
			user += " (you)"
		}
		if len(member.Devices) == 0 {
			rows = append(rows, []string{user, string(member.Role), "-", "-", "-", "-", "-"})
		}
		for _, device := range member.Devices {
			presence, here := open[device.DeviceID]
			rows = append(rows, []string{
				user, string(member.Role), device.DeviceID, string(device.Platform), device.Name, yesNo(here), yesNo(presence.Attention),
			})
		}
	}
	return a.table("\nMEMBER ROLE DEVICE PLATFORM NAME OPEN ATTENTION", rows)
}

func newArchive(a *app) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{Use: "archive SESSION", Short: "Put a session away, or take it out again", Args: fits}
	cmd.Flags().BoolVar(&undo, "undo", false, "take it out again")
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		archived := !undo
		patched, err := c.PatchSession(ctx, args[0], client.SessionPatch{Archived: &archived})
		if err != nil {
			return err
		}
		return a.show(patched, func() error {
			if undo {
				return a.say("%s is no longer archived", patched.ID)
			}
			return a.say("%s is archived", patched.ID)
		})
	})
	return cmd
}

func newDelete(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "delete SESSION", Short: "Delete a session and everything in it, for everybody", Args: fits}
	sure := cmd.Flags().Bool("yes", false, "do not ask first")
	cmd.RunE = a.asking(func(ctx context.Context, c *client.Client, args []string) error {
		if !*sure {
			if err := a.confirmDelete(ctx, c, args[0]); err != nil {
				return err
			}
		}
		deleted, err := c.DeleteSession(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(deleted, func() error { return a.say("%s is deleted", deleted.ID) })
	})
	return cmd
}

// confirmDelete asks at a terminal, and refuses elsewhere: what is deleted is gone for everybody.
func (a *app) confirmDelete(ctx context.Context, c *client.Client, ref string) error {
	if !a.interactive {
		return wrongUsage("this deletes the session for everybody: say --yes if you are sure")
	}
	detail, err := c.GetSession(ctx, ref)
	if err != nil {
		return err
	}
	events := fmt.Sprintf("%d events", detail.LastSeq)
	if detail.LastSeq == 1 {
		events = "1 event"
	}
	a.remark(fmt.Sprintf("Delete session %s, %q, with %s, for everybody? Type yes:", detail.ID, shown(detail.Title), events))
	answer, err := bufio.NewReader(io.LimitReader(a.in, maxAnswer)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing is deleted")
	}
	return nil
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64
