// Command cairn is the sync server for shared agent sessions, and its client.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cairnsync/cairn/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
