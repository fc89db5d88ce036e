//go:build unix && !linux

package acp

import "os/exec"

// begin starts a command. Nothing here ends it with this process when that is killed; most agents end with their standard input.
func begin(command *exec.Cmd, _ <-chan struct{}) error { return command.Start() } //nolint:wrapcheck // the caller knows what was started
