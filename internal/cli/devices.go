package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	client "github.com/cairnsync/cairn/client/sessions"
	"github.com/cairnsync/cairn/internal/cli/render"
	"github.com/cairnsync/cairn/internal/env"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// ownersDevices answers the devices that work in a session can be dispatched to (SS-DSP-1).
func ownersDevices(detail wire.SessionDetail) []wire.MemberDevice {
	at := slices.IndexFunc(detail.Members, func(m wire.Member) bool { return m.UserID == detail.OwnerUserID })
	if at < 0 {
		return nil
	}
	return detail.Members[at].Devices
}

// ownersDevice answers the id of the device of the session's owner that somebody named. A whole id is taken as it is: the
// server says whether it is one.
func ownersDevice(ctx context.Context, c *client.Client, ref, named string) (string, error) {
	if id, is := env.ParseID(named); is {
		return id, nil
	}
	detail, err := c.GetSession(ctx, ref)
	if err != nil {
		return "", err
	}
	return pickDevice(ownersDevices(detail), named)
}

// ownDevice answers the id of the caller's device that somebody named.
func ownDevice(ctx context.Context, c *client.Client, named string) (string, error) {
	if id, is := env.ParseID(named); is {
		return id, nil
	}
	devices, err := c.Devices(ctx)
	if err != nil {
		return "", err
	}
	own := make([]wire.MemberDevice, len(devices))
	for i, device := range devices {
		own[i] = wire.MemberDevice{DeviceID: device.ID, Name: device.Name}
	}
	return pickDevice(own, named)
}

// shortestPrefix is how much of an id names a device at the least, in characters.
const shortestPrefix = 4

// pickDevice finds a device by its name, else by the beginning of its id or by the end of it, as lists show it.
func pickDevice(devices []wire.MemberDevice, named string) (string, error) {
	named = strings.TrimSpace(named)
	id := strings.ToLower(named)
	for _, fits := range []func(wire.MemberDevice) bool{
		func(d wire.MemberDevice) bool { return d.Name == named },
		func(d wire.MemberDevice) bool { return d.Name+" "+render.Short(d.DeviceID) == named },
		func(d wire.MemberDevice) bool { return strings.EqualFold(d.Name, named) },
		func(d wire.MemberDevice) bool { return len(id) >= shortestPrefix && strings.HasPrefix(d.DeviceID, id) },
		func(d wire.MemberDevice) bool {
			return id != "" && render.Short(d.DeviceID) == "…"+strings.TrimPrefix(id, "…")
		},
	} {
		var found []wire.MemberDevice
		for _, device := range devices {
			if fits(device) {
				found = append(found, device)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0].DeviceID, nil
		default:
			return "", fmt.Errorf("%q names %d devices: give more of the id\n%s", named, len(found), deviceLines(found))
		}
	}
	if len(devices) == 0 {
		return "", fmt.Errorf("no device is called %q: there is none", named)
	}
	return "", fmt.Errorf("no device is called %q; there are\n%s", named, deviceLines(devices))
}

// maxDeviceLines bounds a list of devices in a refusal.
const maxDeviceLines = 20

func deviceLines(devices []wire.MemberDevice) string {
	lines := make([]string, 0, maxDeviceLines+1)
	for i, device := range devices {
		if i == maxDeviceLines {
			lines = append(lines, fmt.Sprintf("  and %d more", len(devices)-i))
			break
		}
		lines = append(lines, "  "+device.DeviceID+"  "+render.Clean(device.Name))
	}
	return strings.Join(lines, "\n")
}
