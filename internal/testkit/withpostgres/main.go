// Command withpostgres runs a command with a private PostgreSQL cluster, named by
// CAIRN_TEST_POSTGRES in its environment, so that all test processes of a run share one. With -fsync
// commits reach the disk, as in production. It ends with the command's exit status; 125 means that
// the cluster or the command could not be started.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/cairnsync/cairn/internal/testkit/postgres"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
	}
	os.Exit(status)
}

const cannotRun = 125

func run(command []string) (int, error) {
	durable := len(command) > 0 && command[0] == "-fsync"
	if durable {
		command = command[1:]
	}
	if len(command) == 0 {
		return cannotRun, errors.New("usage: withpostgres [-fsync] command [argument…]")
	}
	cluster, err := postgres.Start("", postgres.Options{Fsync: durable})
	if err != nil {
		return cannotRun, err
	}
	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), "CAIRN_TEST_POSTGRES="+cluster.URL(""))
	err = runForwarding(child)
	stopped := cluster.Stop()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), stopped
	}
	if err != nil {
		return cannotRun, errors.Join(fmt.Errorf("run command: %w", err), stopped)
	}
	return 0, stopped
}

// runForwarding runs child and outlives it: an interrupt from the terminal reaches the child by
// itself, a request to terminate is passed on.
func runForwarding(child *exec.Cmd) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case received := <-signals:
			if received == syscall.SIGTERM {
				_ = child.Process.Signal(received) // it may have ended this moment
			}
		}
	}
}
