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
	os.Exit(cli.Run(untilSignal(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// untilSignal answers a context that ends with the first signal. A second one ends the process at once, as the signal
// does by itself: however soon it comes, it is not lost.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		second := <-signals
		signal.Reset(second)
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Signal(second) != nil { // not every system can; then the exit code says it
			os.Exit(1)
		}
	}()
	return ctx
}
