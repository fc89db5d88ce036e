package workspace_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/testkit/crash"
)

func TestMain(m *testing.M) {
	crash.Serve()
	goleak.VerifyTestMain(m)
}
