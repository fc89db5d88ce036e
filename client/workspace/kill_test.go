package workspace_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/client/workspace"
	"github.com/cairnsync/cairn/client/workspace/localstore"
)

// The environment of a child that writes until it is killed.
const (
	childDir    = "WORKSPACE_TEST_CHILD_DIR"
	childURL    = "WORKSPACE_TEST_CHILD_URL"
	childThread = "WORKSPACE_TEST_CHILD_THREAD"
	childDevice = "WORKSPACE_TEST_CHILD_DEVICE"
)

// childMain is the main function of a child: it says every message that its outbox took.
func childMain() bool {
	dir := os.Getenv(childDir)
	if dir == "" {
		return false
	}
	box, _, done, err := childOutbox(context.Background(), dir, os.Getenv(childURL), os.Getenv(childDevice))
	if err != nil {
		fmt.Println("failed", err)
		return true
	}
	defer done()
	go func() { _ = box.Run(context.Background()) }()
	box.Open()
	for i := 0; ; i++ {
		entry, err := box.Send(context.Background(), os.Getenv(childThread), workspace.Text{ContentMD: fmt.Sprintf("message %d", i)})
		if err != nil {
			fmt.Println("failed", err)
			return true
		}
		fmt.Println("took", entry.ID, i)
	}
}

// childOutbox opens the outbox of a folder and signs in where nobody is.
func childOutbox(ctx context.Context, dir, url, device string) (*workspace.Outbox, *workspace.Client, func(), error) {
	store, keys, err := localstore.OpenIn(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	client, err := workspace.New(workspace.Config{
		BaseURL: url, Device: workspace.Device{ID: device, Name: "child", Platform: "test"}, Keys: keys, Tokens: store,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if held, err := client.SignedIn(ctx); err != nil || held == nil {
		if _, err := client.SignIn(ctx, workspace.Password("me", "right")); err != nil {
			return nil, nil, nil, err
		}
	}
	box, err := workspace.NewOutbox(ctx, client, store)
	return box, client, func() { client.Close(); _ = store.Close() }, err
}

// A process that is killed with kill -9, again and again while it writes and sends, loses nothing that its outbox took,
// and nothing arrives twice or out of order (ES-13.2).
func TestOutboxSurvivesKills(t *testing.T) {
	t.Parallel()
	f := bareFake()
	thread := seed(f)
	server := httptest.NewServer(f)
	defer server.Close()
	f.do(func(*world) { f.origin = server.URL })
	dir := t.TempDir()
	var took []string
	for range 4 {
		took = append(took, killed(t, f, server.URL, dir, thread, 25)...)
	}
	box, _, done, err := childOutbox(t.Context(), dir, server.URL, f.device)
	require.NoError(t, err)
	defer done()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- box.Run(ctx) }()
	box.Open()
	require.NoError(t, box.Idle(ctx))
	cancel()
	require.NoError(t, <-ended)
	at := map[string]int{}
	f.do(func(w *world) {
		for i, message := range w.msgs[thread] {
			require.NotContains(t, at, message.ClientMsgID, "nothing arrives twice")
			at[message.ClientMsgID] = i
		}
	})
	require.GreaterOrEqual(t, len(took), 100)
	last := -1
	for _, id := range took {
		require.Contains(t, at, id, "what was taken arrives")
		require.Greater(t, at[id], last, "in order")
		last = at[id]
	}
}

// killed runs a child until it took so many messages, and answers their ids.
func killed(t *testing.T, f *fake, url, dir, thread string, many int) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run=^$")
	child.Env = append(os.Environ(), childDir+"="+dir, childURL+"="+url, childThread+"="+thread, childDevice+"="+f.device)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var took []string
	lines := bufio.NewScanner(out)
	for len(took) < many && lines.Scan() {
		said := strings.Fields(lines.Text())
		require.Equal(t, "took", said[0], "%s", lines.Text())
		took = append(took, said[1])
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	return took
}
