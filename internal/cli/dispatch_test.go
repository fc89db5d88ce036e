package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/testkit/acpagent"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func TestDispatchSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := filepath.Join(t.TempDir(), "go")
	m.background(append([]string{"run", "--session", "build", "--"}, acpagent.Command(t)...)...)
	m.held("build", true)
	detail, err := m.phone.GetSession(t.Context(), "build")
	require.NoError(t, err)
	here := detail.Lease.DeviceID
	m.done("session", "send", "build", "wait "+file)

	got := m.call("dispatch", "build", "--device", here, "--id", "d1", "--wait", "--timeout", "2s", "say dispatched")
	require.Equal(t, exitFailed, got.code, got.out)
	require.Contains(t, got.out, " has it: it waits for the prompt that runs\n")
	require.Contains(t, got.errs, "did not begin it within 2s: it waits for the prompt that runs")
	require.NotContains(t, got.errs, "did not take")
	got = m.call("dispatch", "build", "--device", here, "--id", "d1", "--wait", "--timeout", "2s", "--json", "say dispatched")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, `"waits": "for the prompt that runs"`)
	waiting := m.background("dispatch", "build", "--device", here, "--id", "d1", "--wait", "say dispatched")
	m.shows(waiting.out, "it waits for the prompt that runs")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	m.shows(waiting.out, "took it")
	require.Equal(t, exitDone, waiting.end().code)
}

func TestDispatchWhileAnotherDeviceDrives(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	desk, laptop := alice.device(t, server.url, "desk"), alice.device(t, server.url, "laptop")
	executor, err := laptop.Execute(t.Context(), "work", client.ExecutorOptions{
		OnControl: func(context.Context, wire.Control) error { return nil },
	})
	require.NoError(t, err)
	hint := "laptop drives the session; `cairn agent --force` or `cairn run --force` on desk takes it over"
	require.Equal(t, "the dispatch is event 1; it waits: "+hint+"\n", alice.done("dispatch", "work", "--device", "desk", "go"))
	got := alice.call("dispatch", "work", "--device", desk.DeviceID(), "--wait", "--timeout", "200ms", "go")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errs, "did not take the dispatch within 200ms: "+hint)
	require.NoError(t, executor.Stop(t.Context()))
}

func TestDispatchFindsADevice(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	server := s.serve(t)
	alice := s.as("alice")
	alice.done("session", "create", "--key", "work")
	desk, one, two := alice.device(t, server.url, "Desk"), alice.device(t, server.url, "twin"), alice.device(t, server.url, "twin")
	for _, named := range []string{"desk", desk.DeviceID(), strings.ToUpper(desk.DeviceID()), desk.DeviceID()[28:], "…" + desk.DeviceID()[28:]} {
		require.Equal(t, desk.DeviceID(), decoded[wire.DispatchReceipt](alice, "dispatch", "work", "--device", named, "--open").TargetDeviceID, named)
	}
	alice.refused(exitFailed, []string{`"twin" names 2 devices`, one.DeviceID(), two.DeviceID()}, "dispatch", "work", "--device", "twin", "--open")
	alice.refused(exitFailed, []string{`"twin" names 2 devices`}, "device", "rm", "twin")
	require.Equal(t, "device "+two.DeviceID()+" is removed\n", alice.done("device", "rm", "…"+two.DeviceID()[28:]))
	require.Equal(t, "device "+one.DeviceID()+" is removed\n", alice.done("device", "rm", "twin"))
	alice.refused(exitFailed, []string{`is called "sofa"`, desk.DeviceID() + "  Desk"}, "dispatch", "work", "--device", "sofa", "--open")
}

func TestPickDevice(t *testing.T) {
	t.Parallel()
	devices := []wire.MemberDevice{
		{DeviceID: "0190a000-0000-7000-8000-0000000000aa", Name: "desk"},
		{DeviceID: "0190b000-0000-7000-8000-0000000000aa", Name: "0190a"},
		{DeviceID: "0190b000-0000-7000-8000-0000000000bb", Name: "desk"},
	}
	for named, want := range map[string]string{
		"0190a": devices[1].DeviceID, "0190A0": devices[0].DeviceID, "desk …000000bb": devices[2].DeviceID, "000000bb": devices[2].DeviceID,
	} {
		got, err := pickDevice(devices, named)
		require.NoError(t, err, named)
		require.Equal(t, want, got, named)
	}
	for named, said := range map[string]string{"0190b": "names 2 devices", "desk": "names 2 devices", "…000000aa": "names 2 devices", "x": "there are", "": "there are"} {
		_, err := pickDevice(devices, named)
		require.ErrorContains(t, err, said, named)
	}
	_, err := pickDevice(nil, "x")
	require.ErrorContains(t, err, "there is none")
	many := make([]wire.MemberDevice, maxDeviceLines+2)
	_, err = pickDevice(many, "x")
	require.ErrorContains(t, err, "and 2 more")
}

// What a device without a token cannot be told by a push matters when nobody heard of it for a while.
func TestWordsOfADispatch(t *testing.T) {
	t.Parallel()
	noToken := wire.DispatchReceipt{Seq: 3, Mode: wire.ModeSend, PushReason: wire.PushNoPushToken}
	require.Contains(t, scene{}.words(noToken), "no push token")
	require.NotContains(t, scene{online: true}.words(noToken), "token")
	failed := wire.DispatchReceipt{Seq: 3, Mode: wire.ModeSend, PushReason: "http_500"}
	require.Contains(t, scene{online: true}.words(failed), "could not be woken (http_500)")
	require.Contains(t, scene{}.late(progress{}, time.Second), "does `cairn agent` run there?")
	require.Contains(t, scene{target: "a", driver: "a"}.late(progress{}, time.Second), "a prompt that runs comes first")
}
