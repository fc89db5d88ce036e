package sessions

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func deviceCases() []testCase {
	return slices.Concat([]testCase{
		{rule: "SS-DVC-1", name: "the devices of an account, newest first", run: caseDevices},
		{rule: "SS-DVC-1", name: "PATCH sets token and capabilities, and needs one of them", run: casePatchDevice},
		{rule: "SS-DVC-1", name: "DELETE keeps the events of the device and releases its lease", run: caseDeleteDevice},
		{rule: "SS-DVC-1", name: "a device of another account is not found", run: caseOtherDevice},
	},
		bothWays(testCase{rule: "SS-DVC-1", name: "DELETE ends the streams of the device"}, caseDeleteEndsStreams),
	)
}

func caseDevices(t *trial) {
	u, second := t.owner(), t.owner()
	u.get("/v1/sessions").want(200)
	second.get("/v1/sessions").want(200)
	a := u.get("/v1/devices").want(200).has("devices")
	var read struct{ Devices []wire.Device }
	a.into(&read)
	for i, one := range list(t, a.body, "devices") {
		requireFields(t, one, "a device", plus(deviceFields, "online")...)
		require.False(t, i > 0 && read.Devices[i].LastSeenAt.After(read.Devices[i-1].LastSeenAt.Time), "newest first")
	}
	for _, id := range []string{u.device, second.device} {
		i := slices.IndexFunc(read.Devices, func(d wire.Device) bool { return d.ID == id })
		require.GreaterOrEqual(t, i, 0)
		require.True(t, *read.Devices[i].Online)
		require.NotNil(t, read.Devices[i].Capabilities)
	}
	_, found := t.stranger().listed(u.device)
	require.False(t, found)
}

func casePatchDevice(t *trial) {
	u := t.owner()
	u.get("/v1/sessions").want(200)
	path := "/v1/devices/" + u.device
	var got wire.Device
	u.patch(path, object{"push_token": "token-" + newID()}).want(200).has(deviceFields...).into(&got)
	require.True(t, got.HasPushToken)
	u.patch(path, object{"capabilities": []string{"screen", "terminal"}}).want(200).into(&got)
	require.Equal(t, []string{"screen", "terminal"}, got.Capabilities)
	require.True(t, got.HasPushToken)
	u.patch(path, object{"push_token": nil, "capabilities": []string{}}).want(200).into(&got)
	require.False(t, got.HasPushToken)
	require.Equal(t, []string{}, got.Capabilities)
	u.patch(path, object{}).bad()
	u.patch(path, object{"name": "other"}).bad()
	u.patch(path, object{"capabilities": nil}).bad("capabilities")
	u.patch(path, object{"capabilities": []any{1}}).bad("capabilities")
	u.anotherDevice().patch(path, object{"capabilities": []string{"x"}}).want(200)
	require.Equal(t, []string{"x"}, u.self().Capabilities)
}

func caseDeleteDevice(t *trial) {
	r := t.room()
	worker := r.target()
	r.claim(worker)
	r.append(worker, event("user"))
	stream := openSSE(r.owner, r, "").live()
	var gone struct {
		Deleted bool
		ID      string
	}
	r.owner.delete("/v1/devices/"+worker.device).want(200).has("deleted", "id").into(&gone)
	require.True(t, gone.Deleted)
	require.Equal(t, worker.device, gone.ID)
	stream.next(wire.FrameLease, heldBy(""))
	require.Equal(t, worker.device, r.all()[0].SenderDeviceID)
	require.Nil(t, r.detail(r.owner).Lease)
	require.Nil(t, worker.among(memberOf(r.detail(r.owner), r.owner.userID).Devices))
	r.claim(r.owner)
	r.owner.delete("/v1/devices/" + worker.device).refused(code.NotFound)
}

func caseOtherDevice(t *trial) {
	u, other := t.owner(), t.stranger()
	u.get("/v1/sessions").want(200)
	other.delete("/v1/devices/" + u.device).refused(code.NotFound)
	other.patch("/v1/devices/"+u.device, object{"push_token": nil}).refused(code.NotFound)
	other.delete("/v1/devices/" + newID()).refused(code.NotFound)
	other.patch("/v1/devices/"+newID(), object{"push_token": nil}).refused(code.NotFound)
	odd := other.delete("/v1/devices/no-uuid")
	require.Contains(t, []int{400, 404}, odd.status, "%s", odd)
	require.Equal(t, u.device, u.self().ID)
}

func caseDeleteEndsStreams(t *trial, o opener) {
	r := t.room()
	u := r.target()
	stream := o.open(u, r, "").live()
	r.owner.delete("/v1/devices/" + u.device).want(200)
	stream.ended(promptly)
}
