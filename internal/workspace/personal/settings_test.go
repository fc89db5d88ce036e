package personal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/authz"
	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit/team"
	"github.com/cairnsync/cairn/internal/workspace/personal"
	"github.com/cairnsync/cairn/internal/workspace/place"
	"github.com/cairnsync/cairn/wire/code"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		ann := w.Person("ann")
		put := func(w *team.Team, key, value string) (wire.Setting, error) {
			return w.Personal.PutSetting(w.Context(), ann, key, nil, wire.PutSetting{Value: json.RawMessage(value)})
		}
		versions := func() map[string]int64 {
			return team.Personally(w, ann, func(tx storage.Tx, _ *authz.Snapshot) (map[string]int64, error) {
				return personal.SettingsVersions(tx, ann.Principal)
			})
		}
		w.Run("ES-14 keys do not interfere; each write has its event", func(w *team.Team) {
			events := w.Emitted(func() {
				for i, key := range []string{"theme", "density", "theme"} {
					setting, err := put(w, key, fmt.Sprintf(`{"n": %d}`, i))
					require.NoError(w, err)
					require.EqualValues(w, 1+i/2, setting.Version)
				}
			})
			require.Equal(w, []string{eventlog.SettingsUpdated, eventlog.SettingsUpdated, eventlog.SettingsUpdated}, team.Types(events))
			require.Equal(w, wire.Setting{Key: "theme", Value: json.RawMessage(`{"n":2}`), Version: 2, UpdatedByDeviceID: ann.Device},
				payload[wire.SettingEvent](w, events[2]).Setting)
			require.Equal(w, map[string]int64{"theme": 2, "density": 1}, versions())
		})
		w.Run("ES-14 deleting a key says so, and versions go on", func(w *team.Team) {
			events := w.Emitted(func() {
				require.NoError(w, w.Personal.DeleteSetting(w.Context(), ann, "theme", nil))
				require.NoError(w, w.Personal.DeleteSetting(w.Context(), ann, "theme", nil))
				require.NoError(w, w.Personal.DeleteSetting(w.Context(), ann, "never", nil))
			})
			require.Len(w, events, 1)
			told := payload[wire.SettingEvent](w, events[0]).Setting
			require.True(w, told.Deleted)
			require.EqualValues(w, 3, told.Version)
			require.Empty(w, told.Value)
			_, err := w.Personal.Setting(w.Context(), ann, "theme")
			w.Refused(code.NotFound, err)
			require.NotContains(w, versions(), "theme")
			setting, err := put(w, "theme", `"dark"`)
			require.NoError(w, err)
			require.EqualValues(w, 4, setting.Version)
		})
		w.Run("WS-4 If-Match is honoured", func(w *team.Team) {
			_, err := w.Personal.PutSetting(w.Context(), ann, "theme", team.Version(1), wire.PutSetting{Value: json.RawMessage(`1`)})
			w.Refused(code.VersionConflict, err)
			require.Error(w, w.Personal.DeleteSetting(w.Context(), ann, "theme", team.Version(1)))
			_, err = w.Personal.PutSetting(w.Context(), ann, "theme", team.Version(4), wire.PutSetting{Value: json.RawMessage(`1`)})
			require.NoError(w, err)
		})
		w.Run("values are one strict JSON value without null, of bounded size", func(w *team.Team) {
			deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
			big := `"` + strings.Repeat("a", personal.MaxSetting) + `"`
			escaped := `"` + strings.Repeat("<", personal.MaxSetting/2) + `"`
			for _, value := range []string{``, `null`, `{"a":null}`, `[null]`, `1 2`, `{"a":1,"a":2}`, `{`, "\"\xff\"", `{a:1}`, deep, big, escaped} {
				_, err := put(w, "bad", value)
				w.Invalid("/value", err)
			}
			for _, key := range []string{"", "a b", "-a", strings.Repeat("k", 129), "ä", "a/b"} {
				_, err := put(w, key, `1`)
				w.Invalid("key", err)
			}
		})
		w.Run("lists page by key", func(w *team.Team) {
			page, err := w.Personal.Settings(w.Context(), ann, place.Paging{Limit: 1})
			require.NoError(w, err)
			require.Equal(w, "density", page.NextCursor)
			page, err = w.Personal.Settings(w.Context(), ann, place.Paging{After: page.NextCursor})
			require.NoError(w, err)
			require.Len(w, page.Items, 1)
			require.Equal(w, "theme", page.Items[0].Key)
		})
		w.Run("there are not more than MaxSettings", func(w *team.Team) {
			require.NoError(w, w.DB.Write(w.Context(), nil, func(tx storage.Tx) error {
				for i := range personal.MaxSettings {
					if err := tx.Exec(`INSERT INTO settings (principal_id, key, value, version) VALUES ($1, $2, '1', 1)`, ann.Principal, fmt.Sprintf("k%d", i)); err != nil {
						return err
					}
				}
				return nil
			}))
			_, err := put(w, "more", `1`)
			w.Refused(code.Conflict, err)
			_, err = put(w, "k1", `2`)
			require.NoError(w, err)
		})
	})
}

func TestSidebars(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelRead)
		put := func(space, state string) (wire.Sidebar, error) {
			return w.Personal.PutSidebar(w.Context(), ann, space, nil, wire.PutSidebar{State: json.RawMessage(state)})
		}
		_, err := w.Personal.Sidebar(w.Context(), ann, channel.SpaceID)
		w.Refused(code.NotFound, err)
		w.Run("ES-14 per space, the last write wins; its event has no resource version", func(w *team.Team) {
			events := w.Emitted(func() {
				for i := range 2 {
					sidebar, err := put(channel.SpaceID, `{"collapsed":[]}`)
					require.NoError(w, err)
					require.EqualValues(w, i+1, sidebar.Version)
				}
			})
			require.Equal(w, []string{eventlog.SidebarUpdated, eventlog.SidebarUpdated}, team.Types(events))
			require.Zero(w, events[1].Resource.Version)
			require.EqualValues(w, 2, payload[wire.SidebarEvent](w, events[1]).Sidebar.Version)
		})
		w.Run("WS-AZ-5 a space out of sight is not there, and its sidebar not in the snapshot", func(w *team.Team) {
			other := w.Space()
			for _, id := range []string{other.ID, w.Env.NewID(), "x"} {
				_, err := put(id, `{}`)
				w.Refused(code.NotFound, err)
			}
			require.Len(w, team.Personally(w, ann, personal.Sidebars), 1)
			w.Revoke(ann)
			require.Empty(w, team.Personally(w, ann, personal.Sidebars))
		})
	})
}

func TestNotificationPrefs(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		channel := w.Text()
		ann := w.Member("ann", team.OnChannel(channel.ID), wire.LevelRead)
		until := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
		put := func(kind, id, level string) (wire.NotificationPref, error) {
			return w.Personal.PutNotificationPref(w.Context(), ann, kind, id, nil, wire.PutNotificationPref{Level: level, MutedUntil: &until})
		}
		targets := map[string]string{"space": channel.SpaceID, "channel": channel.ID, "thread": channel.MainThreadID}
		w.Run("ES-14 per row, the last write wins", func(w *team.Team) {
			for kind, id := range targets {
				events := w.Emitted(func() {
					for i, level := range []string{"all", "none"} {
						pref, err := put(kind, id, level)
						require.NoError(w, err)
						require.EqualValues(w, i+1, pref.Version)
					}
				})
				require.Equal(w, []string{eventlog.NotificationUpdated, eventlog.NotificationUpdated}, team.Types(events))
				require.Equal(w, "none", payload[wire.NotificationPrefEvent](w, events[1]).NotificationPref.Level)
			}
		})
		w.Run("what cannot be is refused", func(w *team.Team) {
			_, err := put("channel", channel.ID, "loud")
			w.Invalid("/level", err)
			_, err = put("planet", channel.ID, "all")
			w.Refused(code.NotFound, err)
			_, err = put("thread", w.Env.NewID(), "all")
			w.Refused(code.NotFound, err)
			_, err = put("channel", w.Text().ID, "all")
			w.Refused(code.NotFound, err)
		})
		w.Run("ES-14 lists name what may be read, in pages", func(w *team.Team) {
			var kinds []string
			for paging := (place.Paging{Limit: 1}); ; {
				page, err := w.Personal.NotificationPrefs(w.Context(), ann, paging)
				require.NoError(w, err)
				for _, pref := range page.Items {
					kinds = append(kinds, pref.Kind)
					require.True(w, until.Equal(*pref.MutedUntil))
				}
				if paging.After = page.NextCursor; paging.After == "" {
					break
				}
			}
			require.Equal(w, []string{"channel", "space", "thread"}, kinds)
			w.Revoke(ann)
			page, err := w.Personal.NotificationPrefs(w.Context(), ann, place.Paging{})
			require.NoError(w, err)
			require.Empty(w, page.Items)
		})
	})
}

func TestQuietHours(t *testing.T) {
	t.Parallel()
	team.Each(t, func(w *team.Team) {
		ann := w.Person("ann")
		_, err := w.Personal.QuietHours(w.Context(), ann)
		w.Refused(code.NotFound, err)
		good := wire.PutQuietHours{Timezone: "Europe/Berlin", Days: []string{"sun", "mon"}, From: "22:00", To: "07:30"}
		w.Run("ES-14 they are stored as one row, with an event", func(w *team.Team) {
			events := w.Emitted(func() {
				hours, err := w.Personal.PutQuietHours(w.Context(), ann, nil, good)
				require.NoError(w, err)
				require.EqualValues(w, 1, hours.Version)
			})
			require.Equal(w, []string{eventlog.QuietHoursUpdated}, team.Types(events))
			hours, err := w.Personal.QuietHours(w.Context(), ann)
			require.NoError(w, err)
			require.Equal(w, payload[wire.QuietHoursEvent](w, events[0]).QuietHours, hours)
			require.Equal(w, []string{"mon", "sun"}, hours.Days)
		})
		w.Run("zones are of the IANA database, days and times are days and times", func(w *team.Team) {
			for pointer, change := range map[string]func(*wire.PutQuietHours){
				"/timezone": func(q *wire.PutQuietHours) { q.Timezone = "Local" },
				"/days":     func(q *wire.PutQuietHours) { q.Days = []string{"mon", "mon"} },
				"/from":     func(q *wire.PutQuietHours) { q.From = "24:00" },
				"/to":       func(q *wire.PutQuietHours) { q.To = "7:30" },
			} {
				bad := good
				change(&bad)
				_, err := w.Personal.PutQuietHours(w.Context(), ann, nil, bad)
				w.Invalid(pointer, err)
			}
			for _, zone := range []string{"", "Mars/Base", "../etc/passwd", "/etc/localtime", strings.Repeat("a", 65)} {
				bad := good
				bad.Timezone = zone
				_, err := w.Personal.PutQuietHours(w.Context(), ann, nil, bad)
				w.Invalid("/timezone", err)
			}
		})
	})
}
