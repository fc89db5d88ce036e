package cli

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cairnsync/cairn/internal/cli/demo"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	workspacedemo "github.com/cairnsync/cairn/internal/cli/demo/workspace"
	"github.com/cairnsync/cairn/internal/cli/render"
)

func newDemo(a *app) *cobra.Command {
	o := demo.Options{Out: a.out, Environ: a.environ, Env: a.env}
	cmd := &cobra.Command{Use: "demo", Short: "Watch one session on several devices, without anything to set up", Args: fits}
	cmd.Long = `Start a server on a temporary database, let an agent's recorded run be executed, followed, steered and taken over on
five devices of three people, each a process of its own, and compare in the end what everybody received.`
	cmd.Flags().StringVar(&o.Database, "database", "", "`URL` of a database to use instead, sqlite:PATH or postgres://…")
	cmd.Flags().Float64Var(&o.Speed, "speed", 1, "play this many times as fast as recorded")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Speed < demo.MinSpeed || o.Speed > demo.MaxSpeed {
			return wrongUsage("--speed is %v to %v", demo.MinSpeed, demo.MaxSpeed)
		}
		o.Render = render.Renderer{Color: a.colour(), Location: time.Local} //nolint:gosmopolitan // people read it where they are
		if file, ok := a.out.(*os.File); ok && a.terminal && a.getenv("TERM") != "dumb" && view.Prepare(file) {
			o.Size = func() (width, height int) { return terminalSize(file) }
		}
		return demo.Run(cmd.Context(), o)
	}
	cmd.AddCommand(newDemoWorkspace(a), newDemoPart(a))
	return cmd
}

func newDemoWorkspace(a *app) *cobra.Command {
	o := workspacedemo.Options{Out: a.out, Environ: a.environ, Env: a.env}
	cmd := &cobra.Command{Use: "workspace", Short: "Watch a team work, lose connections and access, and end with equal copies", Args: fits}
	cmd.Long = `Start a server on a temporary database and let five people work on seven devices: what they said elsewhere is imported,
they talk, edit, delete, react and post; connections drop, access is lost, a device is too slow, old events are removed and
the server is restored from a backup. In the end the copy of every device is compared with the server, field by field.`
	cmd.Flags().StringVar(&o.Database, "database", "", "`URL` of an empty database to use instead, sqlite:PATH or postgres://…")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Color = a.colour()
		return workspacedemo.Run(cmd.Context(), o)
	}
	return cmd
}

// terminalSize answers the columns and lines of a terminal, also of one that does not say.
func terminalSize(file *os.File) (width, height int) {
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil || width == 0 || height == 0 {
		return 80, 24
	}
	return width, height
}

// newDemoPart is what the demonstration starts its processes with.
func newDemoPart(a *app) *cobra.Command {
	p := demo.Part{In: a.in, Out: a.out, Env: a.env}
	cmd := &cobra.Command{Use: "play ROLE", Short: "Play one part of the demonstration", Hidden: true, Args: fits, ValidArgs: demo.Roles()}
	flags := cmd.Flags()
	flags.StringVar(&p.Session, "session", "", "session to take part in")
	flags.StringVar(&p.Name, "name", "", "name of the device")
	flags.Float64Var(&p.Speed, "speed", 1, "times as fast as recorded")
	flags.BoolVar(&p.Force, "force", false, "take the lease by force")
	flags.BoolVar(&p.Socket, "websocket", false, "follow over WebSocket")
	flags.BoolVar(&p.Fragile, "fragile", false, "lose the connection at the cues for it")
	flags.StringVar(&p.Folder, "folder", "", "folder to remove in the end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of a terminal; the one that started us tells us when to end
		p.Role = args[0]
		p.URL, p.Key, p.Device, p.ShareToken = a.baseURL(), a.getenv(envKey), a.getenv(envDevice), a.getenv(envShareToken)
		p.Serve = func(ctx context.Context) error {
			serve := newServe(a)
			serve.SetArgs([]string{}) // nil would be the arguments of the process
			serve.SilenceErrors, serve.SilenceUsage = true, true
			return serve.ExecuteContext(ctx)
		}
		return demo.Play(cmd.Context(), p)
	}
	return cmd
}
