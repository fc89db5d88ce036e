package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	surface "github.com/cairnsync/cairn/internal/api/sessions"
	"github.com/cairnsync/cairn/internal/testkit/servertest"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/sessions"
)

// The checks that TestRoutes makes of every route.

func (r row) winner() seat {
	if r.as == "" {
		return owner
	}
	return r.as
}

func checkKey(t *testing.T, s *stage, route surface.Route, r row) {
	sc := s.scene(t, route, r, owner)
	for what, header := range map[string]string{
		"no key": "", "an unknown key": "Bearer codai_" + strings.Repeat("x", 40), "another scheme": "Basic " + sc.owner.Key,
		"a key in pieces": "Bearer " + sc.owner.Key[:12], "no scheme": sc.owner.Key, "two keys": "Bearer " + sc.owner.Key + " x",
	} {
		t.Run("SS-HTTP-2 "+what, func(t *testing.T) {
			c := raw(t, sc.owner.URL, servertest.Account{})
			c.Header = http.Header{}
			if header != "" {
				c.Header.Set("Authorization", header)
			}
			c.Device = "not a UUID either" // the key comes first (SS-HTTP-6)
			sc.refused(sc.ask(c, sc.path(), "not JSON"), code.InvalidAPIKey)
		})
	}
}

func checkDevice(t *testing.T, s *stage, route surface.Route, r row) {
	sc := s.scene(t, route, r, r.winner())
	t.Run("SS-DEV-0 a device that is no UUID", func(t *testing.T) {
		c := raw(t, sc.owner.URL, s.people["owner"])
		c.Device = "7f1c"
		sc.bad(sc.ask(c, sc.path(), "not JSON"), "x-codai-device")
	})
	t.Run("SS-DEV-1 a device of another account", func(t *testing.T) {
		foreign := raw(t, sc.owner.URL, s.people["foreign"])
		foreign.want(t, http.StatusOK, http.MethodGet, "/v1/devices", nil)
		c := raw(t, sc.owner.URL, s.people["owner"])
		c.Device = foreign.Device
		body := sc.refused(sc.ask(c, sc.path(), "not JSON"), code.Forbidden)
		require.Equal(t, "Device id is registered to another account.", body.Message)
	})
	t.Run("SS-DEV-0 no device", func(t *testing.T) {
		c := raw(t, sc.owner.URL, s.people["owner"])
		c.Device = ""
		answer := sc.ask(c, sc.path(), sc.fill(r.body))
		switch route.Device {
		case surface.DeviceRequired:
			sc.bad(answer, "x-codai-device")
		case surface.DeviceOrV2:
			body := sc.refused(answer, code.BadRequest)
			require.Contains(t, body.Message, "x-codai-device", "SS-DEV-2")
			require.Contains(t, body.Message, "v=2", "SS-DEV-2")
			require.Equal(t, r.fine, sc.ask(c, sc.path()+"?v=2", "").Status, "SS-DEV-2")
		default:
			require.Equal(t, r.fine, answer.Status, "%s", answer)
		}
	})
}

func checkSuccess(t *testing.T, s *stage, route surface.Route, r row) {
	sc := s.scene(t, route, r, r.winner())
	t.Run("succeeds", func(t *testing.T) {
		sc.as.Header = http.Header{wire.HeaderRequestID: {"trace-1"}}
		answer := sc.fine()
		require.Equal(t, r.fine, answer.Status, "%s", answer)
		if !sc.streams() {
			require.Equal(t, "trace-1", answer.Header.Get(wire.HeaderTrace), "SS-HTTP-7")
		}
	})
	t.Run("another method", func(t *testing.T) {
		answer := sc.as.do(t, http.MethodTrace, sc.path(), nil)
		require.Equal(t, http.StatusMethodNotAllowed, answer.Status)
		require.Contains(t, strings.Split(answer.Header.Get("Allow"), ", "), route.Method)
		require.Equal(t, string(code.MethodNotAllowed), answer.Error().Code)
	})
}

func checkRoles(t *testing.T, s *stage, route surface.Route, r row) {
	for who, want := range r.roles {
		t.Run(fmt.Sprintf("SS-ROLE-3 %s: %s", who, want), func(t *testing.T) {
			sc := s.scene(t, route, r, who)
			sc.t = t
			answer := sc.fine()
			got := fmt.Sprint(answer.Status)
			if answer.Status >= http.StatusBadRequest {
				got += " " + answer.Error().Code
			}
			require.Equal(t, want, got, "%s", answer)
		})
	}
	if strings.Contains(route.Path, "{id}") {
		require.Contains(t, r.roles, stranger, "the row of %s has no roles", name(route))
	}
}

func checkUnknown(t *testing.T, s *stage, route surface.Route, r row) {
	for _, part := range r.missing {
		for _, id := range []string{uuid.NewString(), "no-such-thing"} {
			t.Run("SS-REF-1 unknown "+part, func(t *testing.T) {
				sc := s.scene(t, route, r, r.winner())
				sc.t, sc.parts[part] = t, id
				sc.refused(sc.fine(), code.NotFound)
			})
		}
	}
	for part := range strings.SplitSeq(route.Path, "/") {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		for what, segment := range map[string]string{"U+0000": "a%00b", "no UTF-8": "a%ffb"} {
			t.Run("SS-OBJ-4 "+what+" in "+part, func(t *testing.T) {
				sc := s.scene(t, route, r, r.winner())
				sc.t, sc.parts[strings.Trim(part, "{}")] = t, segment
				sc.bad(sc.fine(), strings.Trim(part, "{}"))
			})
		}
	}
}

// checkBody sends bodies of the wrong form.
func checkBody(t *testing.T, s *stage, route surface.Route, r row) {
	if !route.Body {
		return
	}
	sc := s.scene(t, route, r, r.winner())
	for what, body := range map[string]string{
		"an open brace": `{`, "a list": `[]`, "a string": `"x"`, "null": `null`, "a number": `1`, "text": `hello`, "a name twice": `{"a":1,"a":2}`,
		"something behind": `{} {}`, "invalid UTF-8": "{\"a\":\"\xff\"}", "a comment": `{/**/}`, "a comma too many": `{"a":1,}`, "a bad number": `{"a":01}`,
	} {
		t.Run("SS-HTTP-4 "+what, func(t *testing.T) {
			sc.t = t
			sc.bad(sc.ask(sc.as, sc.path(), body), "")
		})
	}
	for _, wrong := range r.wrong {
		t.Run("SS-HTTP-4 "+wrong, func(t *testing.T) {
			sc.t = t
			field, body, _ := strings.Cut(wrong, "=")
			sc.bad(sc.ask(sc.as, sc.path(), sc.fill(body)), field)
		})
	}
	t.Run("SS-HTTP-3 unknown fields are ignored", func(t *testing.T) {
		sc.t = t
		body := strings.TrimSuffix(sc.fill(r.body), "}")
		if !strings.HasSuffix(body, "{") {
			body += ","
		}
		answer := sc.ask(sc.as, sc.path(), body+`"no_such_field":{"a":[1]}}`)
		require.Equal(t, r.fine, answer.Status, "%s", answer)
	})
}

func checkLimits(t *testing.T, s *stage, route surface.Route, r row) {
	if len(r.limits) == 0 {
		return
	}
	sc := s.scene(t, route, r, r.winner())
	for i, l := range r.limits {
		for j, body := range l.at {
			t.Run(fmt.Sprintf("SS-OBJ-2 %s at its limit, %d.%d", l.field, i, j), func(t *testing.T) {
				sc.t = t
				answer := sc.ask(sc.as, sc.path(), sc.fill(body))
				require.Equal(t, r.fine, answer.Status, "%.300s", answer)
			})
		}
		for j, body := range l.past {
			t.Run(fmt.Sprintf("SS-OBJ-2 %s past its limit, %d.%d", l.field, i, j), func(t *testing.T) {
				sc.t = t
				sc.bad(sc.ask(sc.as, sc.path(), sc.fill(body)), l.field)
			})
		}
	}
}

func checkSize(t *testing.T, s *stage, route surface.Route, r row) {
	if !route.Body {
		return
	}
	sc := s.scene(t, route, r, r.winner())
	padded := func(size int) string {
		body := sc.fill(r.body)
		return body + strings.Repeat(" ", size-len(body))
	}
	t.Run("SS-HTTP-5 a body as long as allowed", func(t *testing.T) {
		sc.t = t
		require.Equal(t, r.fine, sc.ask(sc.as, sc.path(), padded(maxBody)).Status)
	})
	t.Run("SS-HTTP-5 a body one byte longer", func(t *testing.T) {
		sc.t = t
		sc.refused(sc.ask(sc.as, sc.path(), padded(maxBody+1)), code.PayloadTooLarge)
	})
}

func checkNumbers(t *testing.T, s *stage, route surface.Route, r row) {
	if route.Method != http.MethodGet {
		return
	}
	for _, query := range []string{
		"limit=x&after=x&before=x&tail=x&wait=x", "limit=-1&after=-1&before=-1&tail=-1&wait=-1", "limit=0&after=0&before=0&tail=0&wait=0",
		"limit=99999999999999999999&after=1e3&tail=99999999999999999999", "limit=&after=&unknown=1&unknown=2",
	} {
		t.Run("SS-HTTP-3 "+query, func(t *testing.T) {
			sc := s.scene(t, route, r, r.winner())
			sc.t = t
			separator := "?"
			if r.query != "" {
				separator = "&"
			}
			answer := sc.ask(sc.as, sc.path()+separator+query, "")
			require.Equal(t, r.fine, answer.Status, "%s", answer)
		})
	}
}
