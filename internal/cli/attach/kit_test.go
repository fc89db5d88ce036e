package attach

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/client/sessions/trace"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

const (
	ownDevice = "00000000-0000-4000-8000-000000000001"
	deskTop   = "00000000-0000-4000-8000-000000000002"
	phone     = "00000000-0000-4000-8000-000000000003"
	laptop    = "00000000-0000-4000-8000-000000000004"
)

// log makes events with their numbers.
type log struct{ last int64 }

func (l *log) raw(kind, turn, payload string) entry {
	l.last++
	event := wire.Event{Seq: l.last, Kind: kind, TS: 1_700_000_000_000 + l.last, SenderDeviceID: deskTop, Payload: json.RawMessage(payload)}
	if turn != "" {
		event.TurnID = &turn
	}
	return newEntry(client.EventFrame{Event: event, Sealed: client.IsSealed(event.Payload)})
}

func (l *log) add(turn string, payload trace.Payload) entry {
	event := trace.Must(turn, payload)
	return l.raw(event.Kind, turn, string(event.Payload))
}

// echo is the event of a control.
func (l *log) echo(control wire.Control) entry {
	control.Seq = l.last + 1
	encoded, err := json.Marshal(map[string]any{"control": control, "applied": false})
	if err != nil {
		panic(err)
	}
	return l.raw(wire.KindControl, "", string(encoded))
}

// stage is a model with a clock and ids of its own.
type stage struct {
	t   *testing.T
	m   *model
	log log
	at  time.Time
	ids int
}

func detailFor(role wire.Role) wire.SessionDetail {
	title := "Fix the build"
	return wire.SessionDetail{
		Session: wire.Session{ID: "s", SessionKey: "build", Title: &title, OwnerUserID: "ann"}, Role: role,
		Members: []wire.Member{{UserID: "ann", Role: wire.RoleOwner, Devices: []wire.MemberDevice{
			{DeviceID: ownDevice, Name: "this"}, {DeviceID: deskTop, Name: "work station"}, {DeviceID: laptop, Name: "laptop"},
		}}, {UserID: "bob", Role: wire.RoleEditor, Devices: []wire.MemberDevice{{DeviceID: phone, Name: "phone"}}}},
	}
}

func newStage(t *testing.T, change func(*setup)) *stage {
	t.Helper()
	s := &stage{t: t, at: time.Unix(1_700_000_000, 0)}
	options := setup{own: ownDevice, now: func() time.Time { return s.at }, detail: detailFor(wire.RoleOwner)}
	options.newID = func() string { s.ids++; return fmt.Sprintf("id-%d", s.ids) }
	if change != nil {
		change(&options)
	}
	s.m = newModel(options)
	s.m.start()
	return s
}

// open is a stage whose log was read and whose stream is there, with a device that executes.
func open(t *testing.T, entries ...entry) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.begin(entries...)
	return s
}

func (s *stage) begin(entries ...entry) {
	for _, e := range entries {
		s.log.last = e.event.Seq
	}
	s.m.handle(pageMsg{want: readTail, entries: entries, last: s.log.last})
	holder := deskTop
	s.frames(client.ConnectionFrame{State: client.Connected}, client.LeaseFrame{HolderDeviceID: &holder})
	s.m.handle(detailMsg{detail: s.m.setup.detail})
	s.arm()
}

func (s *stage) frames(items ...any) []effect { return s.m.handle(streamMsg{s.m.gen, items}) }

// tell streams events.
func (s *stage) tell(turn string, payloads ...trace.Payload) []effect {
	var items []any
	for _, payload := range payloads {
		items = append(items, s.log.add(turn, payload))
	}
	return s.frames(items...)
}

// arm lets keys answer every ask.
func (s *stage) arm() {
	var ids []string
	for _, ask := range s.m.live.asks {
		ids = append(ids, ask.AskID)
	}
	s.m.handle(armMsg{ids})
}

// press presses keys: words are keys by name, everything else is typed.
func (s *stage) press(keys ...string) []effect {
	var effects []effect
	for _, key := range keys {
		effects = append(effects, s.m.handle(keyOf(key))...)
	}
	return effects
}

// enter types a line and sends it.
func (s *stage) enter(line string) []effect {
	for _, r := range line {
		s.m.handle(keyOf(string(r)))
	}
	return s.press("enter")
}

var keyCodes = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
	"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace, "delete": tea.KeyDelete, "f1": tea.KeyF1,
}

func keyOf(name string) tea.KeyPressMsg {
	var mod tea.KeyMod
	rest := name
	for prefix, m := range map[string]tea.KeyMod{"ctrl+": tea.ModCtrl, "shift+": tea.ModShift, "alt+": tea.ModAlt} {
		if after, is := strings.CutPrefix(rest, prefix); is {
			mod, rest = mod|m, after
		}
	}
	if code, special := keyCodes[rest]; special {
		return tea.KeyPressMsg{Code: code, Mod: mod}
	}
	if mod != 0 {
		return tea.KeyPressMsg{Code: []rune(rest)[0], Mod: mod}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// screen answers what is shown, as text.
func (s *stage) screen() string { return strings.Join(s.m.text(s.m.draw()), "\n") }

func (s *stage) shows(parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		require.Contains(s.t, s.screen(), part)
	}
}

func (s *stage) hides(parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		require.NotContains(s.t, s.screen(), part)
	}
}

// only answers the one effect of a kind.
func only[E effect](t *testing.T, effects []effect) E {
	t.Helper()
	found := all[E](effects)
	require.Len(t, found, 1, "%v", effects)
	return found[0]
}

func all[E effect](effects []effect) []E {
	var found []E
	for _, e := range effects {
		if one, is := e.(E); is {
			found = append(found, one)
		}
	}
	return found
}

func permission(id string) trace.Ask {
	return trace.Ask{AskID: id, AskKind: trace.AskPermission, Title: "Run " + id, Text: "$ go test", Options: []trace.Option{
		{ID: "once", Label: "Allow once", Kind: trace.AllowOnce}, {ID: "always", Label: "Always allow", Kind: trace.AllowAlways},
		{ID: "no", Label: "Reject", Kind: trace.RejectOnce},
	}}
}
