package workspace

import (
	"fmt"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// The diagrams of section 16, imports, and the configuration.
func walkCases() []testCase {
	return []testCase{
		{rule: "ES-15.8", name: "a batch is one thread.updated and one import.progress, unread for nobody", run: caseImport},
		{rule: "ES-15.8", name: "a repeated batch adds nothing", run: caseImportAgain},
		{rule: "ES-16.1", name: "send a message, online", run: walkOnline},
		{rule: "ES-16.2", name: "send offline, then reconnect", run: walkOffline},
		{rule: "ES-16.3", name: "reconnect with catch-up, and when that is not possible", run: walkCatchUp},
		{rule: "ES-16.4", name: "access removal during an open connection", run: walkRemoval},
		{rule: "ES-18", name: "every value with its default under its name", profile: rotating, run: caseConfiguration},
		{rule: "ES-18", name: "hello tells the configured values", profile: beating, run: caseConfigured},
	}
}

func (r *room) newImport() wire.Import {
	var made wire.Import
	in := wire.NewImport{SpaceID: r.space.ID, Source: "export-" + newID()}
	r.owner.post("/imports", in).want(http.StatusCreated).into(&made)
	return made
}

func importBatch(n int) wire.ImportBatch {
	at := time.Date(2019, 5, 4, 3, 2, 1, 0, time.UTC)
	batch := wire.ImportBatch{
		Channel: wire.ImportChannel{SourceID: "C1", Name: "imported", Kind: wire.ChannelText},
		Thread:  wire.ImportThread{SourceID: "C1", Main: true},
	}
	for i := range n {
		batch.Messages = append(batch.Messages, wire.ImportMessage{
			SourceID: fmt.Sprintf("M%d", i), AuthorSourceID: "U1", AuthorName: "Uma", ContentMD: fmt.Sprint("old ", i), CreatedAt: at.Add(time.Duration(i) * time.Minute),
		})
	}
	return batch
}

func caseImport(t *trial) {
	r := t.room()
	made := r.newImport()
	reader := t.member(r.owner)
	r.grants(wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectPrincipal, ID: reader.id}, Target: wire.Target{Kind: wire.TargetSpace, ID: r.space.ID}, Level: wire.LevelRead,
	})
	first := read[wire.ImportReceipt](r.owner.post("/imports/"+made.ID+"/batches", importBatch(2)), http.StatusOK)
	s := reader.connect()
	batch := importBatch(5)
	receipt := read[wire.ImportReceipt](r.owner.post("/imports/"+made.ID+"/batches", batch), http.StatusOK)
	require.EqualValues(t, 3, receipt.Added)
	require.EqualValues(t, 2, receipt.Known)
	require.Equal(t, first.ThreadID, receipt.ThreadID)
	events := only(s.settled(), "thread.updated", "import.progress", "message.created")
	require.ElementsMatch(t, []string{"thread.updated", "import.progress"}, types(events))
	thread := payload[wire.ThreadEvent](t, only(events, "thread.updated")[0]).Thread
	require.EqualValues(t, 5, thread.LastMessageSeq)
	require.EqualValues(t, 5, thread.UnreadFloorSeq)
	require.Empty(t, reader.snapshot().ReadStates, "unread for nobody")
	messages := read[wire.Messages](reader.get("/threads/"+receipt.ThreadID+"/messages"), http.StatusOK).Messages
	require.Len(t, messages, 5)
	require.Equal(t, wire.OriginImport, messages[0].Origin)
	require.True(t, batch.Messages[0].CreatedAt.Equal(messages[0].CreatedAt), "WS-5 original times")
	r.sayIn(r.owner, receipt.ThreadID, "new")
	require.EqualValues(t, 1, reader.snapshot().ReadStates[0].UnreadCount)
}

func caseImportAgain(t *trial) {
	r := t.room()
	made := r.newImport()
	r.owner.post("/imports/"+made.ID+"/batches", importBatch(3)).want(http.StatusOK)
	again := read[wire.ImportReceipt](r.owner.post("/imports/"+made.ID+"/batches", importBatch(3)), http.StatusOK)
	require.Zero(t, again.Added)
	require.EqualValues(t, 3, again.Known)
	messages := read[wire.Messages](r.owner.get("/threads/"+again.ThreadID+"/messages"), http.StatusOK).Messages
	require.Len(t, messages, 3)
	r.anna.post("/imports/"+made.ID+"/batches", importBatch(1)).refused(code.Forbidden)
	t.member(r.owner).post("/imports/"+made.ID+"/batches", importBatch(1)).refused(code.NotFound)
}

func walkOnline(t *trial) {
	r := t.room()
	sam := r.joined(wire.LevelRead)
	alex, other := r.anna.connect(), sam.connect()
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "hello"}
	sent := read[wire.Message](r.anna.post("/threads/"+r.thread+"/messages", in), http.StatusCreated)
	require.EqualValues(t, 1, sent.ThreadSeq)
	require.EqualValues(t, 1, sent.Version)
	echo, heard := alex.event("message.created"), other.event("message.created")
	require.Equal(t, in.ClientMsgID, echo.ClientMsgID)
	require.Equal(t, echo.ID, heard.ID)
	require.Equal(t, echo.Seq, heard.Seq)
}

func walkOffline(t *trial) {
	r := t.room()
	s := r.anna.connect()
	cursor := s.settledSeq()
	s.cut()
	in := wire.NewMessage{ClientMsgID: newID(), ContentMD: "written offline"}
	r.say(r.owner, "meanwhile")
	again, _ := r.anna.resume(s.ready.GatewaySessionID, cursor)
	events, _ := again.completed()
	require.Equal(t, []string{"message.created"}, types(events))
	r.anna.post("/threads/"+r.thread+"/messages", in) // the answer is lost
	repeat := r.anna.post("/threads/"+r.thread+"/messages", in)
	original := read[wire.Message](repeat, http.StatusOK)
	require.True(t, repeat.replayed())
	events = only(again.settled(), "message.created")
	require.Len(t, events, 1, "exactly one message")
	require.Equal(t, in.ClientMsgID, events[0].ClientMsgID)
	require.Equal(t, original.ID, events[0].Resource.ID)
}

func walkCatchUp(t *trial) {
	r := t.room()
	cursor := r.anna.head()
	r.say(r.owner, "missed")
	s := r.anna.catchUp(cursor)
	require.NotNil(t, s.ready.Snapshot)
	events, head := s.completed()
	require.Equal(t, []string{"message.created"}, types(events))
	require.GreaterOrEqual(t, head, s.ready.HeadSeq)
	s.acknowledged()
	late := r.anna.dial()
	in := late.identity(cursor)
	in.SyncEpoch = newID()
	late.send(wire.OpIdentify, in)
	late.expect(wire.OpReady)
	resync := body[wire.Resync](late, late.expect(wire.OpResyncRequired))
	snapshot := r.anna.snapshot()
	require.GreaterOrEqual(t, snapshot.HeadSeq, resync.HeadSeq)
	r.say(r.owner, "live")
	require.Greater(t, late.event("message.created").Seq, resync.HeadSeq, "the connection stays live from head_seq")
}

func walkRemoval(t *trial) {
	r := t.room()
	sam := r.anna.connect()
	sam.focus(r.thread)
	grant := r.annas()
	before := r.owner.snapshot().PermissionVersion
	revoked := read[wire.Grant](r.owner.post("/grants/"+grant.ID+"/revoke", object{}), http.StatusOK)
	require.NotNil(t, revoked.RevokedAt)
	changed := sam.accessChanged()
	require.Greater(t, changed.PermissionVersion, before)
	require.Contains(t, changed.Removed, wire.Access{Kind: wire.TargetChannel, ID: r.channel.ID})
	r.say(r.owner, "later")
	require.Empty(t, sam.settled())
	audit := read[wire.Page[wire.AuditEntry]](r.owner.get("/audit?limit=100"), http.StatusOK).Items
	found := false
	for _, entry := range audit {
		found = found || entry.TargetID == grant.ID && entry.UserID == r.owner.id
	}
	require.True(t, found, "the audit row of the revocation")
}

// defaults are the values of ES-18 and of section 7 beside this chapter.
var defaults = map[string]string{
	"sync.event_retention": "30d", "sync.event_payload_max_bytes": "65536", "sync.ws_max_frame_bytes": "1048576", "sync.identify_timeout": "10s",
	"sync.heartbeat_interval": "30s", "sync.heartbeat_miss_limit": "2", "sync.resume_window": "5m", "sync.reauth_lead_time": "60s",
	"sync.reconnect_backoff_base": "1s", "sync.reconnect_backoff_cap": "60s", "sync.catchup_page_size": "500", "sync.catchup_max_events": "50000",
	"sync.cursor_advance_every": "1000", "sync.outbound_queue_max": "10000", "sync.idempotency_key_ttl": "24h", "sync.max_focused_threads": "20",
	"sync.run_patch_coalesce_interval": "250ms", "sync.typing_min_interval": "5s", "sync.typing_ttl": "8s", "client.cache_max_age": "30d",
	"client.outbox_retry_base": "2s", "client.outbox_retry_cap": "5m", "agent.invocation_token_ttl": "60s", "agent.ack_timeout": "30s",
	"agent.ack_persist_interval": "1s", "agent.max_inflight_events": "100", "agent.run_update_min_interval": "500ms", "agent.presence_timeout": "90s",
	"agent.cancel_grace": "30s", "auth.access_token_ttl": "10m", "auth.refresh_token_ttl": "30d", "auth.dpop_nonce_ttl": "5m", "auth.step_up_max_age": "15m",
	"auth.require_device_approval": "false", "authz.expiry_notice": "24h", "gateway.write_timeout": "10s", "http.max_body_bytes": "12582912",
	"file.max_bytes": "104857600", "file.invocation_hold_max": "2m", "voice.transcript_hold_max": "5m", "message.max_chars": "20000",
	"message.max_attachments": "10", "command.autocomplete_timeout": "3s", "command.autocomplete_max_choices": "25", "stats.live_interval": "5s",
	"authz.expiry_sweep_interval": "60s",
}

func caseConfiguration(t *trial) {
	shown, err := t.in.operated().Configuration(t.Context())
	require.NoError(t, err)
	for key, want := range defaults {
		require.Contains(t, shown, key)
		require.Equal(t, amount(want), amount(shown[key]), key)
	}
	for _, key := range []string{"http.public_url", "http.allowed_origins", "limits.enabled", "cluster.mode", "auth.oidc.issuer", "auth.oidc.client_id", "auth.oidc.provision"} {
		require.Contains(t, shown, key)
	}
}

// amount makes durations that are the same look the same.
func amount(text string) string {
	var days int
	if _, err := fmt.Sscanf(text, "%dd", &days); err == nil {
		return (time.Duration(days) * 24 * time.Hour).String()
	}
	if duration, err := time.ParseDuration(text); err == nil {
		return duration.String()
	}
	return text
}

func caseConfigured(t *trial) {
	p := t.owner()
	require.EqualValues(t, 1000, p.dial().hello.HeartbeatIntervalMS)
}
