package sessions

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/conformance/rulebook"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

func deviceHeaderCases() []testCase {
	return []testCase{
		{rule: "SS-DEV-0", name: "the device header is required on writes, leases and streams", run: caseDeviceRequired},
		{rule: "SS-DEV-0", name: "a device header that is not a UUID is refused everywhere", run: caseDeviceNotUUID},
		{rule: "SS-DEV-0", name: "the device header is optional elsewhere", run: caseDeviceOptional},
		{rule: "SS-DEV-0", name: "a device is registered on first sight", run: caseDeviceRegistered},
		{rule: "SS-DEV-0", name: "platform is one of six, anything else is agent", run: casePlatforms},
		{rule: "SS-DEV-0", name: "the name is cut to 120 and used only once", run: caseDeviceName},
		{rule: "SS-DEV-0", name: "the name is UTF-8 and cut at code points", ours: true, run: caseDeviceNameText},
		{rule: "SS-DEV-0", name: "a push token is stored, a malformed one is ignored", run: casePushTokenHeader},
		{rule: "SS-DEV-0", name: "lastSeenAt is bumped by requests", slow: true, run: caseLastSeen},
		{rule: "SS-DEV-0", name: "a share token comes by header or query", run: caseShareTokenPlaces},
		{rule: "SS-DEV-1", name: "another account's device id is refused", run: caseForeignDevice},
		{rule: "SS-DEV-1", name: "a deleted id stays reserved to its user", run: caseDeletedDevice},
		{rule: "SS-DEV-1", name: "concurrent first requests register one row", run: caseConcurrentDevice},
		{rule: "SS-DEV-2", name: "device header or v=2 selects this surface", run: caseSelector},
		{rule: "SS-DEV-2", name: "neither of them is refused with a hint", ours: true, run: caseNoSelector},
	}
}

// device finds u's device in the list of its account; ok is false when it is not there.
func (u *caller) listed(id string) (wire.Device, bool) {
	var read struct{ Devices []wire.Device }
	u.on("").get("/v1/devices").want(200).into(&read)
	i := slices.IndexFunc(read.Devices, func(d wire.Device) bool { return d.ID == id })
	if i < 0 {
		return wire.Device{}, false
	}
	return read.Devices[i], true
}

func (u *caller) self() wire.Device {
	found, ok := u.listed(u.device)
	require.True(u.t, ok, "device %s is not in the list", u.device)
	return found
}

func caseDeviceRequired(t *trial) {
	r := t.room()
	for _, to := range routesOf(r) {
		if to.device {
			r.owner.on("").ask(to).refused(code.BadRequest)
		}
	}
	r.owner.get(r.path("")).want(200)
}

func caseDeviceNotUUID(t *trial) {
	r := t.room()
	for _, to := range routesOf(r) {
		r.owner.on("not-a-uuid").ask(to).refused(code.BadRequest)
	}
	for _, odd := range []string{r.owner.device[:35], r.owner.device + "0", strings.Replace(r.owner.device, "-", "_", 1), "{" + r.owner.device + "}"} {
		r.owner.on(odd).get(r.path("")).refused(code.BadRequest)
	}
}

func caseDeviceOptional(t *trial) {
	r := t.room()
	without := r.owner.on("")
	for path, fields := range map[string][]string{
		"?v=2": detailFields, "/events": {"last_seq", "events"}, "/controls": {"controls"}, "/shares": {"shares"},
	} {
		without.get(r.path(path)).want(200).has(fields...)
	}
	without.get("/v1/devices").want(200)
	without.get("/v1/sessions/shared-with-me").want(200)
	without.get("/v1/orgs").want(200)
	var share wire.Share
	without.post(r.path("/shares"), object{"principal_type": "link"}).want(201).into(&share)
	without.delete(r.path("/shares/" + share.ID)).want(200)
	without.post("/v1/orgs", object{"name": "conformance"}).want(201)
	without.patch("/v1/devices/"+r.owner.device, object{"push_token": nil}).want(200)
}

func caseDeviceRegistered(t *trial) {
	u := t.owner()
	_, known := u.listed(u.device)
	require.False(t, known)
	u.get("/v1/sessions").want(200)
	found := u.self()
	require.WithinDuration(t, found.CreatedAt.Time, found.LastSeenAt.Time, 20*time.Second)
	require.Empty(t, found.Capabilities)
	require.False(t, found.HasPushToken)
	require.True(t, *found.Online)
}

func casePlatforms(t *trial) {
	for header, stored := range map[string]wire.Platform{
		"android": "android", "ios": "ios", "web": "web", "desktop": "desktop", "cli": "cli", "agent": "agent",
		"toaster": "agent", "": "agent",
	} {
		u := t.owner()
		if header != "" {
			u = u.with(wire.HeaderPlatform, header)
		}
		u.get("/v1/sessions").want(200)
		found := u.self()
		require.Equal(t, stored, found.Platform, "platform header %q", header)
		require.Equal(t, string(stored)+" device", found.Name, "default name of platform %q", header)
	}
}

func caseDeviceName(t *trial) {
	u := t.owner()
	u.with(wire.HeaderDeviceName, "Pixel 9").get("/v1/sessions").want(200)
	require.Equal(t, "Pixel 9", u.self().Name)
	u.with(wire.HeaderDeviceName, "Other").get("/v1/sessions").want(200)
	require.Equal(t, "Pixel 9", u.self().Name, "used only at first registration")
	for length, stored := range map[int]int{120: 120, 121: 120, 500: 120} {
		u := t.owner()
		u.with(wire.HeaderDeviceName, strings.Repeat("n", length)).get("/v1/sessions").want(200)
		require.Equal(t, strings.Repeat("n", stored), u.self().Name)
	}
}

func caseDeviceNameText(t *trial) {
	for header, stored := range map[string]string{runes(120): runes(120), runes(121): runes(120), "Ana’s телефон": "Ana’s телефон"} {
		u := t.owner()
		u.with(wire.HeaderDeviceName, header).get("/v1/sessions").want(200)
		require.Equal(t, stored, u.self().Name)
	}
}

func casePushTokenHeader(t *trial) {
	for token, kept := range map[string]bool{
		strings.Repeat("t", 8): true, strings.Repeat("t", 4096): true,
		strings.Repeat("t", 7): false, strings.Repeat("t", 4097): false, "tokenée-token": false,
	} {
		u := t.owner()
		a := u.with(wire.HeaderPushToken, token).get("/v1/sessions").want(200)
		require.Equal(t, kept, u.self().HasPushToken, "token of %d bytes", len(token))
		require.NotContains(t, string(a.body), token)
		require.NotContains(t, string(u.get("/v1/devices").want(200).body), token, "never shown")
	}
	u := t.owner()
	u.with(wire.HeaderPushToken, "good-token-1").get("/v1/sessions").want(200)
	u.with(wire.HeaderPushToken, "short").get("/v1/sessions").want(200)
	require.True(t, u.self().HasPushToken, "a malformed value changes nothing")
}

func caseLastSeen(t *trial) {
	u := t.owner()
	u.get("/v1/sessions").want(200)
	first := u.self().LastSeenAt.Time
	t.Eventually(20*time.Second, "lastSeenAt moves with requests", func() bool {
		u.get("/v1/sessions").want(200)
		return u.self().LastSeenAt.After(first)
	})
}

func caseShareTokenPlaces(t *trial) {
	r := t.room()
	share := r.share(object{"principal_type": "link"})
	visitor := t.stranger()
	visitor.get(r.path("")).refused(code.NotAMember)
	visitor.with(wire.HeaderShareToken, share.Token).get(r.path("")).want(200)
	visitor.get(r.path("?share=" + share.Token)).want(200)
	visitor.get(r.path("/events?share=" + share.Token)).want(200)
	visitor.with(wire.HeaderShareToken, strings.Repeat("A", 43)).get(r.path("")).refused(code.NotAMember)
	visitor.get(r.path("?share=nonsense")).refused(code.NotAMember)
}

const foreignDevice = "Device id is registered to another account."

func caseForeignDevice(t *trial) {
	r := t.room()
	r.viewer()
	thief := t.as(t.suite.viewer).on(r.owner.device)
	for _, to := range routesOf(r) {
		thief.ask(to).refused(code.Forbidden, foreignDevice)
	}
	require.Equal(t, r.owner.device, r.owner.self().ID)
}

func caseDeletedDevice(t *trial) {
	u := t.owner()
	u.get("/v1/sessions").want(200)
	u.on("").delete("/v1/devices/"+u.device).want(200).has("deleted", "id")
	_, known := u.listed(u.device)
	require.False(t, known)
	t.stranger().on(u.device).get("/v1/sessions").refused(code.Forbidden, foreignDevice)
	_, known = u.listed(u.device)
	require.False(t, known, "a refused account registers nothing")
	u.get("/v1/sessions").want(200)
	require.Equal(t, u.device, u.self().ID, "its user may register it again")
}

func caseConcurrentDevice(t *trial) {
	u := t.owner()
	same := rulebook.Concurrently(12, func(int) *answer { return u.get("/v1/sessions") })
	require.Equal(t, map[int]int{200: 12}, statuses(same))
	var read struct{ Devices []wire.Device }
	u.on("").get("/v1/devices").want(200).into(&read)
	rows := 0
	for _, device := range read.Devices {
		if device.ID == u.device {
			rows++
		}
	}
	require.Equal(t, 1, rows)
	contested := t.owner()
	other := t.editor().on(contested.device)
	t.Cleanup(func() { other.delete("/v1/devices/" + contested.device) })
	answers := rulebook.Concurrently(12, func(i int) *answer {
		if i%2 == 0 {
			return contested.get("/v1/sessions")
		}
		return other.get("/v1/sessions")
	})
	require.Equal(t, map[int]int{200: 6, 403: 6}, statuses(answers), "one account gets the id")
	require.NotEqual(t, answers[0].status, answers[1].status)
}

func caseSelector(t *trial) {
	r := t.room()
	r.owner.get("/v1/sessions").want(200).has("sessions")
	r.owner.on("").get("/v1/sessions?v=2").want(200).has("sessions")
	r.owner.get(r.path("")).want(200).has(detailFields...)
	r.owner.on("").get(r.path("?v=2")).want(200).has(detailFields...)
	r.owner.on("").get("/v1/sessions/shared-with-me").want(200).has("sessions")
}

func caseNoSelector(t *trial) {
	r := t.room()
	for _, path := range []string{"/v1/sessions", r.path(""), "/v1/sessions?v=1", "/v1/sessions/" + newID()} {
		r.owner.on("").get(path).refused(code.BadRequest, "x-codai-device", "v=2")
	}
}
