package server_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/testkit/crash"
)

// The test binary is also the server process that the crash tests kill.
func TestMain(m *testing.M) {
	crash.Serve()
	waitTogether()
	goleak.VerifyTestMain(m)
}

// waitTogether runs more tests at once than there are processors, unless -parallel says how many: most of
// them wait for terms, kills and pauses.
func waitTogether() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // the flag is the testing package's
	}
}
