package server_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/testkit/crash"
)

// The test binary is also the server process that the crash tests kill.
func TestMain(m *testing.M) {
	crash.Serve()
	goleak.VerifyTestMain(m)
}
