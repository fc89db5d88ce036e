//go:build !unix

package postgres

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

var quitSignal = os.Kill

type account struct{}

var errUnsupported = errors.New("run a private PostgreSQL: only on Unix; name a running server by CAIRN_TEST_POSTGRES instead")

func serverAccount() (*account, error) { return nil, errUnsupported }

func (a *account) applyTo(*exec.Cmd) {}

func prepareFolder(string, *account) (string, error) { return "", errUnsupported }

func (c *Cluster) watch() error { return errUnsupported }

func (c *Cluster) dismissWatchdog() {}

func childrenOf(int) ([]int, error) { return nil, errUnsupported }

func waitGone([]int, time.Duration) error { return errUnsupported }

func alive(int) bool { return false }
