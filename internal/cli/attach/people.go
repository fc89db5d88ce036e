package attach

import (
	"strings"

	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// meet takes what is known about the session and its people.
func (m *model) meet(detail wire.SessionDetail) {
	m.called = detail.SessionKey
	if detail.Title != nil && *detail.Title != "" {
		m.called = *detail.Title
	}
	m.role, m.e2e, m.members = detail.Role, detail.E2E, detail.Members
	names, times := map[string]string{}, map[string]int{}
	for _, member := range detail.Members {
		for _, device := range member.Devices {
			names[device.DeviceID] = oneLine(short(device.Name, wire.MaxDeviceName))
			times[names[device.DeviceID]]++
		}
	}
	for id, name := range names {
		if name == "" || times[name] > 1 {
			names[id] = oneLine(name + " " + render.Short(id))
		}
	}
	changed := len(names) != len(m.names)
	for id, name := range names {
		changed = changed || m.names[id] != name
	}
	m.names = names
	if changed {
		m.win.refold(func() {})
		if m.problem != "" {
			m.retell()
		}
	}
	if m.conn != online { // the stream tells of both, in order
		m.holder = ""
		if detail.Lease != nil {
			m.holder = detail.Lease.DeviceID
		}
		m.presence = map[string]wire.Presence{}
		for _, p := range detail.Presence {
			m.join(p)
		}
	}
}

// lookAgain goes on with what waited for the newest list of devices.
func (m *model) lookAgain() {
	if m.overlay != nil && m.overlay.fresh != nil {
		m.overlay.lines = m.overlay.fresh()
	}
	if m.sought == "" || m.askDetail { // that list is on its way
		return
	}
	if strings.TrimSpace(m.editor.text) == m.sought {
		m.looked = true
		m.submit()
	}
	m.sought, m.looked = "", false
}

// name answers what a device is called.
func (m *model) name(id string) string {
	switch {
	case id == "":
		return "somebody"
	case id == m.own:
		return "this device"
	case m.names[id] != "":
		return m.names[id]
	default:
		return oneLine(render.Short(id))
	}
}

// learn asks for the name of a device that is not known, once.
func (m *model) learn(id string) {
	if id == "" || id == m.own || m.names[id] != "" || m.unknown[id] || len(m.unknown) >= maxPresence {
		return
	}
	m.unknown[id], m.askDetail = true, true
}

func (m *model) join(p wire.Presence) {
	if p.Online != nil && !*p.Online {
		delete(m.presence, p.DeviceID)
		return
	}
	if _, known := m.presence[p.DeviceID]; known || len(m.presence) < maxPresence {
		m.presence[p.DeviceID] = p
	}
	if p.DeviceID == m.own && p.Role.Rank() > 0 {
		m.role = p.Role
	}
	m.learn(p.DeviceID)
}
