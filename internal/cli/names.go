package cli

import (
	"context"
	"maps"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/render"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// deviceNames answers what the devices of a session's members are called, by id. Where two share a name, the end
// of the id tells them apart.
func deviceNames(detail wire.SessionDetail) map[string]string {
	names, times := map[string]string{}, map[string]int{}
	for _, member := range detail.Members {
		for _, device := range member.Devices {
			names[device.DeviceID] = device.Name
			times[device.Name]++
		}
	}
	for id, name := range names {
		if name != "" && times[name] > 1 {
			names[id] = name + " " + render.Short(id)
		}
	}
	return names
}

// nameBook knows what the devices of one session are called, also those that come later. One reader uses it.
type nameBook struct {
	known map[string]string // by device id
	asked map[string]bool   // devices whose names were asked for, known or not
	read  func() (wire.SessionDetail, error)
}

// maxAsked bounds how many devices are asked for while a session is followed; later ones are shown by their ids.
const maxAsked = 1000

// newNameBook reads the names as they are; what is printed as JSON needs none.
func newNameBook(ctx context.Context, c *client.Client, ref string, unused bool) *nameBook {
	book := &nameBook{known: map[string]string{}, asked: map[string]bool{}}
	if unused {
		return book
	}
	book.read = func() (wire.SessionDetail, error) { return c.GetSession(ctx, ref) }
	book.refresh()
	return book
}

// refresh reads the names anew. Where they cannot be read, ids do.
func (b *nameBook) refresh() {
	if detail, err := b.read(); err == nil {
		maps.Copy(b.known, deviceNames(detail))
	}
}

// meet learns the name of a device that a frame tells of, if it is new.
func (b *nameBook) meet(frame client.Frame) {
	id := ""
	switch frame := frame.(type) {
	case client.PresenceFrame:
		id = frame.DeviceID
	case client.LeaseFrame:
		if frame.HolderDeviceID != nil {
			id = *frame.HolderDeviceID
		}
	}
	if id == "" || b.known[id] != "" || b.asked[id] || len(b.asked) >= maxAsked {
		return
	}
	b.asked[id] = true
	b.refresh()
}

// called answers what a device is called, or the end of its id.
func (b *nameBook) called(id string) string {
	if name := b.known[id]; name != "" {
		return name
	}
	return "device " + render.Short(id)
}
