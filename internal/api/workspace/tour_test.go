package workspace_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	apiworkspace "github.com/cairnsync/cairn/internal/api/workspace"
	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// tour asks once for everything there is, and remembers which routes answered well.
type tour struct {
	t *testing.T
	*servertest.Person

	s    *servertest.Server
	mux  *http.ServeMux
	mu   sync.Mutex
	seen map[string]bool
}

func newTour(t *testing.T, s *servertest.Server, p *servertest.Person) *tour {
	tour := &tour{t: t, Person: p, s: s, mux: http.NewServeMux(), seen: map[string]bool{}}
	for _, route := range apiworkspace.Routes() {
		tour.mux.HandleFunc(route.Pattern(), http.NotFound)
	}
	return tour
}

// ask requires a status.
func (r *tour) ask(status int, method, path string, body any, headers ...servertest.Header) servertest.Answer {
	r.t.Helper()
	answer := r.Do(r.t, method, api+path, body, headers...)
	require.Equal(r.t, status, answer.Status, "%s %s: %s", method, path, answer.Body)
	r.visited(method, path)
	return answer
}

func (r *tour) visited(method, path string) {
	address, err := url.Parse("http://x" + api + path)
	require.NoError(r.t, err)
	_, pattern := r.mux.Handler(&http.Request{Method: method, URL: address})
	require.NotEmpty(r.t, pattern, "%s %s", method, path)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[pattern] = true
}

// Every route answers, and each answer is as the document says (the person holds them against it).
func TestEveryRouteAnswers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, func(c *config.Config) { c.File.Dir = t.TempDir() })
		ada := s.Person(t, "ada")
		r := newTour(t, s, ada)
		r.identity()
		r.permissions()
		r.places()
		r.messages()
		r.personal()
		r.files()
		r.imports()
		r.end()
		for _, route := range apiworkspace.Routes() {
			require.True(t, r.seen[route.Pattern()] || route.Access == apiworkspace.Public, "nobody asked for %s", route.Pattern())
		}
	})
}

func (r *tour) identity() {
	me := servertest.Read[wire.Me](r.t, r.ask(200, "GET", "/me", nil), 200)
	require.Equal(r.t, wire.LevelOwner, me.Access[0].Level, "WS-AZ-3 the first person owns the instance")
	r.ask(204, "PUT", "/me/password", map[string]string{"password": "correct horse battery"})
	r.ask(200, "GET", "/devices", nil)
	second := r.Another(r.t, r.s)
	r.ask(200, "GET", "/devices/"+second.DeviceID, nil)
	r.ask(200, "POST", "/devices/"+second.DeviceID+"/approve", nil)
	r.ask(204, "DELETE", "/devices/"+second.DeviceID, nil)
	r.ask(201, "POST", "/login-codes", nil)
	for _, kind := range []string{"users", "agents", "apps"} {
		one := servertest.Read[wire.Principal](r.t, r.ask(201, "POST", "/"+kind, wire.NewPrincipal{Handle: kind + "-1", DisplayName: "One"}, servertest.Once()), 201)
		name := "Renamed"
		r.ask(200, "PATCH", "/"+kind+"/"+one.ID, wire.PatchPrincipal{DisplayName: &name}, tag(one.Version))
		r.ask(200, "POST", "/"+kind+"/"+one.ID+"/disable", nil)
		r.ask(200, "POST", "/"+kind+"/"+one.ID+"/enable", struct{}{})
		read := servertest.Read[wire.Principal](r.t, r.ask(200, "GET", "/"+kind+"/"+one.ID, nil), 200)
		require.Equal(r.t, name, read.DisplayName)
		list := servertest.Read[wire.Page[wire.Principal]](r.t, r.ask(200, "GET", "/"+kind+"?limit=1", nil), 200)
		require.Len(r.t, list.Items, 1)
		require.Equal(r.t, 404, r.Do(r.t, "GET", api+"/"+kind+"/"+servertest.NewID(), nil).Status)
		if kind != "users" {
			r.tokens("/"+kind+"/"+one.ID, one)
		}
	}
}

// tokens makes a token, uses it and revokes it (WS-ID-2).
func (r *tour) tokens(path string, of wire.Principal) {
	once := servertest.Once()
	made := servertest.Read[wire.APITokenMade](r.t, r.ask(201, "POST", path+"/tokens", wire.NewToken{Name: "ci"}, once), 201)
	require.NotEmpty(r.t, made.Token)
	again := servertest.Read[wire.APITokenMade](r.t, r.ask(201, "POST", path+"/tokens", wire.NewToken{Name: "ci"}, once), 201)
	require.Empty(r.t, again.Token, "a repeat tells no secret")
	require.Equal(r.t, made.ID, again.ID)
	bearer := servertest.Header{Name: "Authorization", Value: "Bearer " + made.Token}
	answer := bare(r.t, r.s, "GET", api+"/me", nil, bearer)
	require.Equal(r.t, of.ID, servertest.Read[wire.Me](r.t, answer, 200).Principal.ID)
	require.Empty(r.t, answer.Header.Get(wire.HeaderDPoPNonce), "nothing is to be proved")
	bare(r.t, r.s, "GET", api+"/read-states", nil, bearer).Problem(r.t, 403, "not_available_for_kind")
	r.ask(200, "GET", path+"/tokens", nil)
	r.ask(204, "DELETE", path+"/tokens/"+made.ID, nil)
	bare(r.t, r.s, "GET", api+"/me", nil, bearer).Problem(r.t, 401, "invalid_token")
}

func (r *tour) permissions() {
	group := servertest.Read[wire.Group](r.t, r.ask(201, "POST", "/groups", wire.NewGroup{Name: "team"}, servertest.Once()), 201)
	path := "/groups/" + group.ID
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	member := servertest.Read[wire.Group](r.t, r.ask(200, "PUT", path+"/members/"+r.ID, wire.PutMember{ExpiresAt: &until}), 200)
	require.Len(r.t, member.Members, 1)
	r.ask(200, "PUT", path+"/members/"+r.ID, nil)
	renamed := servertest.Read[wire.Group](r.t, r.ask(200, "PATCH", path, wire.NewGroup{Name: "crew"}, servertest.IfMatch("*")), 200)
	r.Do(r.t, "PATCH", api+path, wire.NewGroup{Name: "x"}, tag(renamed.Version+9)).Problem(r.t, 412, "version_conflict")
	r.ask(200, "GET", "/groups", nil)
	r.ask(200, "GET", path, nil)
	grant := servertest.Read[wire.Grant](r.t, r.ask(201, "POST", "/grants", wire.NewGrant{
		Subject: wire.Subject{Kind: wire.SubjectGroup, ID: group.ID}, Target: wire.Target{Kind: wire.TargetInstance}, Level: wire.LevelRead,
	}), 201)
	r.ask(200, "GET", "/grants?target_kind=instance", nil)
	r.Do(r.t, "GET", api+"/grants?target_kind=space", nil).Problem(r.t, 422, "validation_failed")
	r.Do(r.t, "GET", api+"/grants?subject_id="+group.ID, nil).Problem(r.t, 422, "validation_failed")
	revoked := servertest.Read[wire.Grant](r.t, r.ask(200, "POST", "/grants/"+grant.ID+"/revoke", struct{}{}), 200)
	require.NotNil(r.t, revoked.RevokedAt)
	r.ask(204, "DELETE", path+"/members/"+r.ID, nil)
	r.ask(204, "DELETE", path, nil)
	audit := servertest.Read[wire.Page[wire.AuditEntry]](r.t, r.ask(200, "GET", "/audit?limit=2", nil), 200)
	require.Len(r.t, audit.Items, 2)
	older := servertest.Read[wire.Page[wire.AuditEntry]](r.t, r.ask(200, "GET", "/audit?limit=2&cursor="+audit.NextCursor, nil), 200)
	require.Equal(r.t, audit.Items[1].Seq-1, older.Items[0].Seq)
	owners := servertest.Read[wire.Page[wire.Grant]](r.t, r.ask(200, "GET", "/grants?target_kind=instance", nil), 200)
	r.Do(r.t, "POST", api+"/grants/"+owners.Items[0].ID+"/revoke", nil).Problem(r.t, 409, "last_owner")
}

func (r *tour) places() {
	space := r.Space(r.t, "places")
	r.visited("POST", "/spaces")
	name := "renamed"
	r.ask(200, "GET", "/spaces", nil)
	r.ask(200, "GET", "/spaces/"+space.ID, nil)
	r.ask(200, "PATCH", "/spaces/"+space.ID, wire.PatchSpace{Name: &name}, tag(space.Version))
	channel, forum := r.Channel(r.t, space.ID, "a"), r.Forum(r.t, space.ID, "b")
	r.visited("POST", "/channels")
	path := "/channels/" + channel.ID
	r.ask(200, "GET", "/channels", nil)
	r.ask(200, "GET", path, nil)
	topic := "what for"
	r.ask(200, "PATCH", path, wire.PatchChannel{Topic: &topic})
	cleared := servertest.Read[wire.Channel](r.t, r.ask(200, "PATCH", path, wire.PatchChannel{Clear: []string{"topic"}}), 200)
	require.Empty(r.t, cleared.Topic)
	settings := r.ask(200, "GET", path+"/settings", nil)
	r.ask(200, "PUT", path+"/settings", wire.PutSettings{Prompt: "be kind"}, servertest.IfMatch(settings.Header.Get("ETag")))
	r.ask(200, "POST", path+"/archive", nil)
	r.ask(200, "POST", path+"/unarchive", struct{}{})
	started := r.Post(r.t, channel.ID, "topic", "first")
	r.visited("POST", path+"/threads")
	thread := "/threads/" + started.Thread.ID
	r.ask(200, "GET", path+"/threads?state=open", nil)
	r.ask(200, "GET", thread, nil)
	title := "another"
	r.ask(200, "PATCH", thread, wire.PatchThread{Title: &title})
	r.ask(200, "POST", thread+"/done", struct{}{})
	r.ask(200, "POST", thread+"/reopen", nil)
	moved := servertest.Read[wire.Thread](r.t, r.ask(200, "POST", thread+"/move", wire.MoveThread{ChannelID: forum.ID}), 200)
	require.Equal(r.t, wire.ThreadPost, moved.Kind)
	r.ask(200, "POST", "/spaces/"+space.ID+"/archive", nil)
	r.ask(200, "POST", "/spaces/"+space.ID+"/unarchive", nil)
}

func (r *tour) messages() {
	channel := r.Channel(r.t, r.Space(r.t, "messages").ID, "a")
	of := "/threads/" + channel.MainThreadID
	message := r.Say(r.t, channel.MainThreadID, "findable words")
	r.visited("POST", of+"/messages")
	path := "/messages/" + message.ID
	r.ask(200, "GET", path, nil)
	for _, emoji := range []string{"👍", "%2B1"} {
		emoji = strings.ReplaceAll(url.PathEscape(emoji), "%25", "%")
		r.ask(204, "PUT", path+"/reactions/"+emoji, nil)
		r.ask(204, "PUT", path+"/reactions/"+emoji, nil)
	}
	read := servertest.Read[wire.Message](r.t, r.ask(200, "GET", path, nil), 200)
	require.Len(r.t, read.Reactions, 2)
	require.True(r.t, read.Reactions[0].Me)
	r.ask(204, "DELETE", path+"/reactions/"+url.PathEscape("👍"), nil)
	r.ask(204, "PUT", of+"/pins/"+message.ID, nil)
	require.Len(r.t, servertest.Read[wire.Page[wire.Message]](r.t, r.ask(200, "GET", of+"/pins", nil), 200).Items, 1)
	r.ask(204, "DELETE", of+"/pins/"+message.ID, nil)
	r.ask(200, "PATCH", path, wire.EditMessage{ContentMD: "findable phrases"}, tag(read.Version))
	require.Len(r.t, servertest.Read[wire.Page[wire.Revision]](r.t, r.ask(200, "GET", path+"/revisions", nil), 200).Items, 2)
	require.Eventually(r.t, func() bool {
		found := servertest.Read[wire.Page[wire.Message]](r.t, r.ask(200, "GET", "/search?q=findable+phrases", nil), 200)
		return len(found.Items) == 1
	}, 20*time.Second, 20*time.Millisecond)
	for _, window := range []string{"", "?before=5", "?after=0", "?around=1&limit=3"} {
		r.ask(200, "GET", of+"/messages"+window, nil)
	}
	r.Do(r.t, "GET", api+of+"/messages?before=1&after=1", nil).Problem(r.t, 422, "validation_failed")
	r.ask(204, "DELETE", path, nil)
}

func (r *tour) personal() {
	space := r.Space(r.t, "personal")
	channel := r.Channel(r.t, space.ID, "a")
	thread := channel.MainThreadID
	r.Say(r.t, thread, "one")
	state := servertest.Read[wire.ReadState](r.t, r.ask(200, "PUT", "/read-states/"+thread, wire.PutReadState{LastReadSeq: 99}), 200)
	require.Equal(r.t, int64(1), state.LastReadSeq, "ES-14 clamped")
	r.ask(200, "GET", "/read-states/"+thread, nil)
	r.ask(200, "GET", "/read-states", nil)
	r.Do(r.t, "POST", api+"/read-states/"+thread+"/reset", wire.PutReadState{}).Problem(r.t, 428, "precondition_required")
	r.ask(200, "POST", "/read-states/"+thread+"/reset", wire.PutReadState{}, tag(state.Version))
	r.ask(200, "PUT", "/drafts/"+thread, wire.PutDraft{ContentMD: "not yet"})
	r.ask(200, "GET", "/drafts/"+thread, nil)
	r.ask(200, "GET", "/drafts", nil)
	r.ask(204, "DELETE", "/drafts/"+thread, nil)
	r.ask(200, "PUT", "/settings/theme", []byte(`{"value":{"dark":true}}`))
	r.ask(200, "GET", "/settings/theme", nil)
	r.ask(200, "GET", "/settings", nil)
	r.ask(204, "DELETE", "/settings/theme", nil)
	r.ask(200, "PUT", "/spaces/"+space.ID+"/sidebar", []byte(`{"state":[1,2]}`))
	r.ask(200, "GET", "/spaces/"+space.ID+"/sidebar", nil)
	r.ask(200, "PUT", "/notification-prefs/channel/"+channel.ID, wire.PutNotificationPref{Level: "mentions"})
	r.ask(200, "GET", "/notification-prefs", nil)
	r.ask(200, "PUT", "/quiet-hours", wire.PutQuietHours{Timezone: "Europe/Berlin", Days: []string{"mon"}, From: "22:00", To: "07:00"})
	r.ask(200, "GET", "/quiet-hours", nil)
	r.ask(200, "GET", "/sync/snapshot", nil)
	r.ask(200, "GET", "/events?after=0", nil)
}

func (r *tour) files() {
	content := []byte(strings.Repeat("0123456789", 100))
	in := wire.NewFile{OriginalName: "digits — ten.txt", MimeType: "text/plain", SizeBytes: int64(len(content))}
	file := servertest.Read[wire.File](r.t, r.ask(201, "POST", "/files", in, servertest.Once()), 201)
	path := "/files/" + file.ID
	kind := servertest.Header{Name: "Content-Type", Value: "application/octet-stream"}
	r.ask(200, "PUT", path+"/content", content, kind)
	r.ask(200, "PUT", path+"/content", content, kind)
	r.ask(200, "GET", path, nil)
	whole := r.ask(200, "GET", path+"/content", nil)
	require.Equal(r.t, content, whole.Body)
	require.Equal(r.t, "attachment; filename*=utf-8''digits%20%E2%80%94%20ten.txt", whole.Header.Get("Content-Disposition"))
	part := r.ask(206, "GET", path+"/content", nil, servertest.Header{Name: "Range", Value: "bytes=5-9"})
	require.Equal(r.t, "56789", string(part.Body))
	require.Equal(r.t, "bytes 5-9/1000", part.Header.Get("Content-Range"))
	r.Do(r.t, "GET", api+path+"/content", nil, servertest.Header{Name: "Range", Value: "bytes=5000-"}).Problem(r.t, 416, "range_not_satisfiable")
	r.ask(304, "GET", path+"/content", nil, servertest.Header{Name: "If-None-Match", Value: whole.Header.Get("ETag")})
	r.ask(204, "DELETE", path, nil)
	require.NotEqual(r.t, 200, r.Do(r.t, "GET", api+path+"/content", nil).Status)
}

func (r *tour) imports() {
	space := r.Space(r.t, "imported")
	in := wire.NewImport{SpaceID: space.ID, Source: "export-1"}
	begun := servertest.Read[wire.Import](r.t, r.ask(201, "POST", "/imports", in), 201)
	again := servertest.Read[wire.Import](r.t, r.ask(200, "POST", "/imports", in), 200)
	require.Equal(r.t, begun.ID, again.ID)
	batch := wire.ImportBatch{
		Channel: wire.ImportChannel{SourceID: "C1", Name: "general"}, Thread: wire.ImportThread{SourceID: "T1", Main: true},
		Messages: []wire.ImportMessage{{SourceID: "M1", AuthorSourceID: "U1", AuthorName: "Old Friend", ContentMD: "long ago", CreatedAt: time.Unix(1e9, 0).UTC()}},
	}
	for added := int64(1); added >= 0; added-- {
		receipt := servertest.Read[wire.ImportReceipt](r.t, r.ask(200, "POST", "/imports/"+begun.ID+"/batches", batch), 200)
		require.Equal(r.t, added, receipt.Added, "ES-15.8 what was applied is skipped")
	}
	r.ask(200, "GET", "/imports", nil)
	r.ask(200, "GET", "/imports/"+begun.ID, nil)
	r.ask(200, "POST", "/imports/"+begun.ID+"/finish", nil)
}

func (r *tour) end() { r.ask(204, "POST", "/auth/logout", struct{}{}) }

// The content of a file streams: it is larger than what a body may be in memory.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, testkit.New(t, testkit.SQLite), func(c *config.Config) {
		c.File.Dir, c.HTTP.MaxBodyBytes, c.File.MaxBytes = t.TempDir(), 1024, 3<<20
	})
	ada := s.Person(t, "ada")
	content := bytes.Repeat([]byte("cairn "), (2<<20)/6)
	in := wire.NewFile{OriginalName: "a", MimeType: "application/x-cairn", SizeBytes: int64(len(content))}
	file := servertest.Read[wire.File](t, ada.Do(t, "POST", api+"/files", in), 201)
	require.Equal(t, 200, ada.Do(t, "PUT", api+"/files/"+file.ID+"/content", content).Status)
	read := ada.Do(t, "GET", api+"/files/"+file.ID+"/content", nil)
	require.Equal(t, content, read.Body)
	require.Equal(t, "application/x-cairn", read.Header.Get("Content-Type"))
	in.SizeBytes = 4 << 20
	ada.Do(t, "POST", api+"/files", in).Problem(t, 413, "payload_too_large")
}
