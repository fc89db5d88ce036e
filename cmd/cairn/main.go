// Command cairn is the sync server for shared agent sessions, and its client.
package main

import (
	"os"

	"github.com/cairnsync/cairn/internal/cli"
)

func main() {
	os.Exit(cli.Run(cli.UntilSignal(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
