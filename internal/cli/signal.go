package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal answers a context that ends with the first signal to end. A second one ends the process at once, as the
// signal does by itself: however soon it comes, it is not lost.
func UntilSignal() context.Context {
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
