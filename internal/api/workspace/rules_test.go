package workspace_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/config"
	"github.com/cairnsync/cairn/internal/testkit"
	"github.com/cairnsync/cairn/internal/testkit/crash"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func number(n int64) string { return strconv.FormatInt(n, 10) }

func tag(version int64) servertest.Header { return servertest.IfMatch(`"` + number(version) + `"`) }

func TestOrderOfRefusals(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, nil)
		ada, bob, eve := s.Person(t, "ada"), s.Person(t, "bob"), s.Person(t, "eve")
		space := ada.Space(t, "home")
		channel := ada.Channel(t, space.ID, "general")
		ada.Grant(t, bob.ID, wire.TargetChannel, channel.ID, wire.LevelWrite)
		message := ada.Say(t, channel.MainThreadID, "hello")
		path := api + "/messages/" + message.ID
		edit := wire.EditMessage{ContentMD: "bye"}

		t.Run("WS-AZ-5 authenticate before decode", func(t *testing.T) {
			bare(t, s, http.MethodPatch, path, nil).Problem(t, 401, "invalid_token")
		})
		t.Run("WS-AZ-5 decode before 404", func(t *testing.T) {
			eve.Do(t, http.MethodPatch, path, []byte(`{"content":1}`)).Problem(t, 422, "validation_failed")
			eve.Do(t, http.MethodPatch, api+"/messages/x", []byte(`{`)).Problem(t, 400, "malformed_json")
		})
		t.Run("WS-AZ-5 404 before 403: what one may not see does not exist", func(t *testing.T) {
			unseen := eve.Do(t, http.MethodPatch, path, edit).Problem(t, 404, "not_found")
			none := eve.Do(t, http.MethodPatch, api+"/messages/"+servertest.NewID(), edit).Problem(t, 404, "not_found")
			unseen.TraceID, none.TraceID = "", ""
			require.Equal(t, none, unseen)
		})
		t.Run("WS-AZ-5 403 before 428", func(t *testing.T) {
			bob.Do(t, http.MethodPatch, path, edit).Problem(t, 403, "forbidden")
		})
		t.Run("WS-AZ-5 428 before 412", func(t *testing.T) {
			ada.Do(t, http.MethodPatch, path, edit).Problem(t, 428, "precondition_required")
		})
		t.Run("WS-AZ-5 a repeat before 412", func(t *testing.T) {
			once := servertest.Once()
			first := ada.Do(t, http.MethodPatch, path, edit, tag(message.Version), once)
			require.Equal(t, 200, first.Status)
			again := ada.Do(t, http.MethodPatch, path, edit, tag(message.Version), once)
			require.Equal(t, 200, again.Status, "%s", again.Body)
			require.Equal(t, "true", again.Header.Get(wire.HeaderIdempotentReplay))
		})
		t.Run("WS-AZ-5 410 before 412", func(t *testing.T) {
			require.Equal(t, 204, ada.Do(t, http.MethodDelete, path, nil).Status)
			ada.Do(t, http.MethodPatch, path, edit, tag(99)).Problem(t, 410, "message_deleted")
		})
		t.Run("WS-AZ-5 an id in a body that one may not use is like one that does not exist", func(t *testing.T) {
			in := wire.NewChannel{SpaceID: space.ID, Kind: wire.ChannelText, Name: "x"}
			unseen := eve.Do(t, http.MethodPost, api+"/channels", in).Problem(t, 422, "validation_failed")
			in.SpaceID = servertest.NewID()
			none := eve.Do(t, http.MethodPost, api+"/channels", in).Problem(t, 422, "validation_failed")
			unseen.TraceID, none.TraceID = "", ""
			require.Equal(t, none, unseen)
		})
	})
}

func TestConditions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		ada := servertest.Start(t, db, nil).Person(t, "ada")
		channel := ada.Channel(t, ada.Space(t, "home").ID, "general")
		message := ada.Say(t, channel.MainThreadID, "one")
		path := api + "/messages/" + message.ID
		t.Run("ES-13.3 an edit names the version it knows", func(t *testing.T) {
			answer := ada.Do(t, http.MethodPatch, path, wire.EditMessage{ContentMD: "two"}, tag(message.Version))
			edited := servertest.Read[wire.Message](t, answer, 200)
			require.Equal(t, `"`+number(edited.Version)+`"`, answer.Header.Get("ETag"))
			require.Equal(t, answer.Header.Get("ETag"), ada.Do(t, http.MethodGet, path, nil).Header.Get("ETag"))
		})
		t.Run("ES-13.3 412 shows the current revision", func(t *testing.T) {
			problem := ada.Do(t, http.MethodPatch, path, wire.EditMessage{ContentMD: "three"}, tag(message.Version)).Problem(t, 412, "version_conflict")
			require.Contains(t, string(problem.Current), `"content_md":"two"`)
		})
		t.Run("ES-13.3 any version", func(t *testing.T) {
			require.Equal(t, 200, ada.Do(t, http.MethodPatch, path, wire.EditMessage{ContentMD: "four"}, servertest.IfMatch("*")).Status)
		})
		t.Run("ES-13.3 a tag that is none", func(t *testing.T) {
			for _, wrong := range []string{"7", `W/"7"`, `"x"`, `"1", "2"`} {
				problem := ada.Do(t, http.MethodPatch, path, wire.EditMessage{ContentMD: "x"}, servertest.IfMatch(wrong)).Problem(t, 422, "validation_failed")
				require.Equal(t, "If-Match", problem.Errors[0].Pointer)
			}
		})
		t.Run("ES-13.3 deleting is idempotent and edits are over", func(t *testing.T) {
			for range 2 {
				require.Equal(t, 204, ada.Do(t, http.MethodDelete, path, nil).Status)
			}
			tombstone := servertest.Read[wire.Message](t, ada.Do(t, http.MethodGet, path, nil), 200)
			require.Empty(t, tombstone.ContentMD)
			require.NotNil(t, tombstone.DeletedAt)
		})
		t.Run("If-Match is honoured everywhere", func(t *testing.T) {
			name := "renamed"
			stale := ada.Do(t, http.MethodPatch, api+"/channels/"+channel.ID, wire.PatchChannel{Name: &name}, tag(channel.Version+1))
			require.Contains(t, string(stale.Problem(t, 412, "version_conflict").Current), `"name":"general"`)
			require.Equal(t, 200, ada.Do(t, http.MethodPatch, api+"/channels/"+channel.ID, wire.PatchChannel{Name: &name}, tag(channel.Version)).Status)
		})
	})
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, nil)
		ada, bob := s.Person(t, "ada"), s.Person(t, "bob")
		channel := ada.Channel(t, ada.Space(t, "home").ID, "general")
		messages := api + "/threads/" + channel.MainThreadID + "/messages"
		t.Run("ES-5.1 a repeated message is answered 200 with the original", func(t *testing.T) {
			in := wire.NewMessage{ClientMsgID: servertest.NewID(), ContentMD: "once"}
			first := servertest.Read[wire.Message](t, ada.Do(t, http.MethodPost, messages, in), 201)
			head := servertest.Read[wire.Snapshot](t, ada.Do(t, http.MethodGet, api+"/sync/snapshot", nil), 200).HeadSeq
			answer := ada.Do(t, http.MethodPost, messages, in)
			require.Equal(t, first, servertest.Read[wire.Message](t, answer, 200))
			require.Equal(t, "true", answer.Header.Get(wire.HeaderIdempotentReplay))
			require.Empty(t, eventsAfter(t, ada, head), "without new events")
		})
		t.Run("ES-5.1 the same id with something else", func(t *testing.T) {
			in := wire.NewMessage{ClientMsgID: servertest.NewID(), ContentMD: "one"}
			require.Equal(t, 201, ada.Do(t, http.MethodPost, messages, in).Status)
			in.ContentMD = "another"
			ada.Do(t, http.MethodPost, messages, in).Problem(t, 422, "idempotency_key_reuse")
		})
		t.Run("ES-5.1 an id of another version", func(t *testing.T) {
			in := wire.NewMessage{ClientMsgID: "0a5d2f0e-6a0b-4b7a-9a3c-0d0c0b0a0908", ContentMD: "one"}
			require.Equal(t, "/client_msg_id", ada.Do(t, http.MethodPost, messages, in).Problem(t, 422, "validation_failed").Errors[0].Pointer)
		})
		t.Run("ES-5.1 at the same time", func(t *testing.T) {
			in := wire.NewMessage{ClientMsgID: servertest.NewID(), ContentMD: "together"}
			answers := together(8, func() servertest.Answer { return ada.Do(t, http.MethodPost, messages, in) })
			made := map[int]int{}
			ids := map[string]bool{}
			for _, answer := range answers {
				made[answer.Status]++
				ids[servertest.Read[wire.Message](t, answer, answer.Status).ID] = true
			}
			require.Equal(t, map[int]int{201: 1, 200: 7}, made)
			require.Len(t, ids, 1)
		})
		t.Run("ES-5.2 the stored answer, once", func(t *testing.T) { testKeys(t, ada, bob) })
	})
}

func testKeys(t *testing.T, ada, bob *servertest.Person) {
	once := servertest.Once()
	first := ada.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "once"}, once)
	again := ada.Do(t, http.MethodPost, api+"/spaces", []byte(`{ "name" : "onc\u0065" }`), once)
	require.Equal(t, servertest.Read[wire.Space](t, first, 201), servertest.Read[wire.Space](t, again, 201), "another spelling is the same request")
	require.Empty(t, first.Header.Get(wire.HeaderIdempotentReplay))
	require.Equal(t, "true", again.Header.Get(wire.HeaderIdempotentReplay))
	ada.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "other"}, once).Problem(t, 422, "idempotency_key_reuse")
	bob.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "once"}, once).Problem(t, 403, "forbidden")

	once = servertest.Once()
	statuses := map[int]int{}
	ids := map[string]bool{}
	for _, answer := range together(8, func() servertest.Answer {
		return ada.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "together"}, once)
	}) {
		statuses[answer.Status]++
		if answer.Status == http.StatusConflict {
			answer.Problem(t, 409, "request_in_progress")
			continue
		}
		ids[servertest.Read[wire.Space](t, answer, 201).ID] = true
	}
	require.Len(t, ids, 1, "%v", statuses)
}

// together runs an action n times at once.
func together(n int, do func() servertest.Answer) []servertest.Answer {
	answers := make([]servertest.Answer, n)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = do() })
	}
	all.Wait()
	return answers
}

// The server is killed while a write runs: whether it was done or not, its repeat does it once.
func TestRepeatsAfterACrash(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		s := servertest.Start(t, db, nil)
		ada := s.Person(t, "ada")
		channel := ada.Channel(t, ada.Space(t, "home").ID, "general")
		s.Stop(t)
		process := crash.Start(t, db.URL)
		for round := range 6 {
			p := ada.At(t, process.URL())
			in := wire.NewMessage{ClientMsgID: servertest.NewID(), ContentMD: fmt.Sprintf("round %d", round)}
			space, once := wire.NewSpace{Name: in.ContentMD}, servertest.Once()
			path := api + "/threads/" + channel.MainThreadID + "/messages"
			p.Do(t, http.MethodGet, api+"/me", nil) // it has a nonce of this process
			lost := make(chan struct{}, 2)
			p.Lose(t, http.MethodPost, path, in, lost)
			p.Lose(t, http.MethodPost, api+"/spaces", space, lost, once)
			<-lost
			process.Kill()
			<-lost
			process.Restart()
			p = ada.At(t, process.URL())
			message := p.Do(t, http.MethodPost, path, in)
			require.Contains(t, []int{200, 201}, message.Status, "ES-5.1 %s", message.Body)
			require.Equal(t, 201, p.Do(t, http.MethodPost, api+"/spaces", space, once).Status)
			listed := servertest.Read[wire.Messages](t, p.Do(t, http.MethodGet, path+"?limit=100", nil), 200)
			require.Len(t, listed.Messages, round+1, "ES-5.1 exactly one message")
			spaces := servertest.Read[wire.Page[wire.Space]](t, p.Do(t, http.MethodGet, api+"/spaces?limit=100", nil), 200)
			require.Len(t, spaces.Items, round+2, "ES-5.2 exactly one space")
		}
	})
}

func TestRates(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, testkit.New(t, testkit.SQLite), func(c *config.Config) {
		c.Limits.Write.Count, c.Limits.Search.Count = 5, 2
		c.Limits.Login.Count = 8
	})
	ada, bob := s.Person(t, "ada"), s.Person(t, "bob")
	for range 5 {
		require.Equal(t, 201, ada.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "a"}).Status)
	}
	refused := ada.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "a"})
	require.Positive(t, refused.Problem(t, 429, "rate_limited").RetryAfter, "WS-AZ-4")
	require.NotEmpty(t, refused.Header.Get("Retry-After"))
	bob.Do(t, http.MethodPost, api+"/spaces", wire.NewSpace{Name: "a"}).Problem(t, 403, "forbidden")
	for range 2 {
		require.Equal(t, 200, bob.Do(t, http.MethodGet, api+"/search?q=a", nil).Status)
	}
	bob.Do(t, http.MethodGet, api+"/search?q=a", nil).Problem(t, 429, "rate_limited")
	require.Equal(t, 200, ada.Do(t, http.MethodGet, api+"/me", nil).Status, "reading is not limited")
	for limited := false; !limited; {
		answer := bob.Refresh(t)
		limited = answer.Status == http.StatusTooManyRequests
		require.Contains(t, []int{200, 429}, answer.Status)
	}
}

func TestLoginRates(t *testing.T) {
	t.Parallel()
	const most = 8
	s := servertest.Start(t, testkit.New(t, testkit.SQLite), func(c *config.Config) {
		c.Limits.Login = config.Rate{Count: most, Per: 24 * time.Hour}
		c.HTTP.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	ada, bob, eva := s.Person(t, "ada"), s.Person(t, "bob"), s.Person(t, "eva")
	t.Run("WS-AZ-4 many devices behind one address refresh, each as often as one may", func(t *testing.T) {
		for range most {
			for _, p := range []*servertest.Person{ada, bob, eva} {
				require.Equal(t, 200, p.Refresh(t).Status)
			}
		}
		ada.Refresh(t).Problem(t, 429, "rate_limited")
	})
	device := ada.Device()
	grants := []wire.TokenRequest{
		{GrantType: wire.GrantPassword, Username: "ada", Password: "wrong password", Device: device},
		{GrantType: wire.GrantLoginCode, Code: "x", Device: device},
		{GrantType: wire.GrantOIDCCode, Code: "x", CodeVerifier: "x", RedirectURI: "x", Device: device},
		{GrantType: wire.GrantRefreshToken, RefreshToken: "none"},
	}
	// limited says whether an attempt is refused as one too many; they all fail.
	limited := func(i int, forwarded string) bool {
		from := servertest.Header{Name: "X-Forwarded-For", Value: forwarded}
		return bob.Do(t, http.MethodPost, api+"/auth/token", grants[i%len(grants)], from).Status == http.StatusTooManyRequests
	}
	for _, c := range []struct{ name, first, same, other string }{
		{"one address signs in so often, whatever the grant", "198.51.100.1", "198.51.100.1, 10.1.2.3", "198.51.100.2, 10.1.2.3"},
		{"a network of IPv6 is one address", "2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1"},
	} {
		t.Run("WS-AZ-4 "+c.name, func(t *testing.T) {
			for i := range most {
				require.False(t, limited(i, c.first), i)
			}
			for i := range grants {
				require.True(t, limited(i, c.same), i)
			}
			require.False(t, limited(0, c.other))
		})
	}
}
