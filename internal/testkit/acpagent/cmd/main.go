// Command cmd is the scripted agent as a program: go run ./internal/testkit/acpagent/cmd [OPTION…].
package main

import (
	"fmt"
	"os"

	"github.com/cairnsync/cairn/internal/testkit/acpagent"
)

func main() {
	code, err := acpagent.Run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
