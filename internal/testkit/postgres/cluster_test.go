//go:build unix

package postgres_test

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/cairnsync/cairn/internal/testkit/postgres"
)

const asChild = "CAIRN_CLUSTER_TEST_CHILD"

// TestMain is also the entry of the process that starts a cluster and is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(asChild); dir != "" {
		cluster, err := postgres.Start(dir, postgres.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(cluster.URL(""))
		select {}
	}
	goleak.VerifyTestMain(m)
}

func TestClusterSurvivesAKillAndKeepsItsAddress(t *testing.T) {
	t.Parallel()
	cluster, err := postgres.Start("", postgres.Options{Fsync: true, Settings: map[string]string{"work_mem": "5MB"}})
	require.NoError(t, err)
	address := cluster.URL("")
	require.Equal(t, "5MB on", ask(t, address, "SELECT current_setting('work_mem') || ' ' || current_setting('fsync')"))
	run(t, address, "CREATE TABLE kept (id int)")
	require.NoError(t, cluster.Kill9())
	require.Error(t, connect(t, address))
	require.Error(t, cluster.Kill9(), "it does not run")
	require.NoError(t, cluster.Restart())
	require.Equal(t, address, cluster.URL(""))
	require.Equal(t, "0", ask(t, address, "SELECT count(*)::text FROM kept"))
	require.NoError(t, cluster.Restart(), "also while it runs")
	require.NoError(t, cluster.Stop())
	require.Error(t, connect(t, address))
}

func TestClusterEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "cairn-cluster-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(parent)) })
	require.NoError(t, os.Chmod(parent, 0o755))
	dir := filepath.Join(parent, "cluster")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), asChild+"="+dir)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan(), "the child starts a cluster")
	address := lines.Text()
	require.NoError(t, connect(t, address))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err) && connect(t, address) != nil
	}, 30*time.Second, 20*time.Millisecond)
}

func TestWithpostgres(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "withpostgres")
	output, err := exec.Command("go", "build", "-o", binary, "../withpostgres").CombinedOutput()
	require.NoError(t, err, "%s", output)
	output, err = exec.Command(binary, "sh", "-c", `printf %s "$CAIRN_TEST_POSTGRES"; exit 7`).Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	parsed, err := url.Parse(string(output))
	require.NoError(t, err)
	require.Equal(t, "postgres", parsed.Scheme)
	require.Error(t, connect(t, string(output)), "the cluster is gone")
	err = exec.Command(binary, "/nowhere/to/be/found").Run()
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 125, exit.ExitCode())
}

func connect(t *testing.T, address string) error {
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		return err
	}
	return conn.Close(t.Context())
}

func run(t *testing.T, address, statement string) {
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

func ask(t *testing.T, address, query string) string {
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var answer string
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&answer))
	return answer
}
