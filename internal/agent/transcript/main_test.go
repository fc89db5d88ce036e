package transcript

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	client "github.com/cairnsync/cairn/client/sessions"
)

// importVariable makes a test binary an import: URL, key, device and file, one on each line; or a dry run of a file.
const importVariable = "CAIRN_TEST_IMPORT"

func TestMain(m *testing.M) {
	if what := os.Getenv(importVariable); what != "" {
		if err := importAs(strings.Split(what, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func importAs(what []string) error {
	if len(what) == 1 {
		return measure(what[0])
	}
	c, err := client.New(client.Config{BaseURL: what[0], Key: what[1], Device: client.Device{ID: what[2]}})
	if err != nil {
		return err
	}
	_, err = Import(context.Background(), what[3], Options{Client: c})
	return err
}

// measure reads a file, and prints how many events it has and how much memory the process took from the system.
func measure(path string) error {
	report, err := Import(context.Background(), path, Options{DryRun: true})
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Println(report.Added, memory.Sys)
	return err
}
