package demo

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/cli/demo/script"
	"github.com/cairnsync/cairn/internal/cli/demo/view"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// fair is a demonstration in which all went well; each case spoils one thing.
func fair(t *testing.T) (*director, facts) {
	t.Helper()
	run, err := script.Load()
	require.NoError(t, err)
	named := func(name, role string) *device {
		return &device{Device: view.Device{ID: "00000000-0000-4000-8000-0000" + fmt.Sprintf("%08x", len(name)), Name: name}, role: role}
	}
	s := &stage{
		laptop: named("laptop", roleExecutor), workstation: named("workstation", roleExecutor),
		phone: named("phone", roleViewer), desktop: named("desktop", roleEditor), webBrowser: named("browser", roleViewer),
	}
	found := facts{digest: "0123456789abcdef0123", transfers: 1}
	for i, line := range run {
		found.log = append(found.log, wire.Event{Seq: int64(i + 1), Kind: line.Kind, ClientEventID: &line.ID})
	}
	for range editorActs {
		found.controls = append(found.controls, wire.Control{Kind: wire.ControlPause, Applied: true})
	}
	d := &director{run: run, stage: s, lost: 1, tallies: map[*device]tally{}}
	for _, one := range s.followers() {
		d.tallies[one] = tally{Events: int64(len(run)), Reconnects: cuts, Digest: found.digest}
	}
	return d, found
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	spoil := func(d *director, change func(*tally)) {
		spoiled := d.tallies[d.stage.phone]
		change(&spoiled)
		d.tallies[d.stage.phone] = spoiled
	}
	for expected, change := range map[string]func(*director, *facts){
		"":                                     func(*director, *facts) {},
		"the log of phone differs":             func(d *director, _ *facts) { spoil(d, func(t *tally) { t.Digest = "fedcba9876543210fedc" }) },
		"phone saw 1 gaps":                     func(d *director, _ *facts) { spoil(d, func(t *tally) { t.Gaps = 1 }) },
		"phone saw 2 duplicates":               func(d *director, _ *facts) { spoil(d, func(t *tally) { t.Duplicates = 2 }) },
		"phone connected again 1 times, not 2": func(d *director, _ *facts) { spoil(d, func(t *tally) { t.Reconnects = 1 }) },
		"1 lines of the recording are not":     func(_ *director, f *facts) { f.log = f.log[1:] },
		"2 lines of the recording are not":     func(_ *director, f *facts) { f.log[4] = f.log[3] },
		"taken by force 2 times":               func(_ *director, f *facts) { f.transfers = 2 },
		"lost 0 times":                         func(d *director, _ *facts) { d.lost = 0 },
		"1 controls were not applied":          func(_ *director, f *facts) { f.controls[0].Applied = false },
		"sent 4 controls, not 5":               func(_ *director, f *facts) { f.controls = f.controls[1:] },
	} {
		d, found := fair(t)
		change(d, &found)
		wrong := d.wrong(found)
		if expected == "" {
			require.Empty(t, wrong)
			continue
		}
		require.Len(t, wrong, 1, expected)
		require.Contains(t, wrong[0], expected)
	}
}

func TestDigestDependsOnEveryField(t *testing.T) {
	t.Parallel()
	text := "x"
	base := wire.Event{Seq: 1, Kind: "user", TS: 2, SenderDeviceID: "d", Payload: []byte(`{"text":"<a>"}`)}
	seen := map[string]string{}
	for name, change := range map[string]func(*wire.Event){
		"none":    func(*wire.Event) {},
		"seq":     func(e *wire.Event) { e.Seq++ },
		"kind":    func(e *wire.Event) { e.Kind += "x" },
		"ts":      func(e *wire.Event) { e.TS++ },
		"sender":  func(e *wire.Event) { e.SenderDeviceID += "x" },
		"turn":    func(e *wire.Event) { e.TurnID = &text },
		"id":      func(e *wire.Event) { e.ClientEventID = &text },
		"payload": func(e *wire.Event) { e.Payload = []byte(`{"text":"<b>"}`) },
	} {
		event := base
		change(&event)
		sum := newDigest()
		require.NoError(t, sum.add(event))
		require.NotContains(t, seen, sum.String(), "%s and %s", name, seen[sum.String()])
		seen[sum.String()] = name
	}
}

func TestEndOfOutputIsKept(t *testing.T) {
	t.Parallel()
	var kept tail
	require.Empty(t, kept.quoted())
	for range maxComplaint {
		_, err := kept.Write([]byte("ab"))
		require.NoError(t, err)
	}
	_, err := kept.Write([]byte("\nthe end\n"))
	require.NoError(t, err)
	require.Len(t, kept.kept, maxComplaint)
	require.Regexp(t, `ab\n  the end$`, kept.quoted())
}
