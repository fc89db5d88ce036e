package storage

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// panicked is the error of a function that panicked; it holds the stack for the log.
func panicked(cause any) error {
	return fmt.Errorf("a function of a transaction panicked: %v\n%s", cause, debug.Stack())
}

// runEffects runs what waited for the commit. One that panics does not take the others with it.
func runEffects(log *slog.Logger, effects []func()) {
	for _, effect := range effects {
		func() {
			defer func() {
				if cause := recover(); cause != nil {
					log.Error("an effect after a commit panicked", "error", panicked(cause))
				}
			}()
			effect()
		}()
	}
}
