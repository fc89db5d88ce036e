package eventlog_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairnsync/cairn/internal/eventlog"
	"github.com/cairnsync/cairn/internal/storage"
	"github.com/cairnsync/cairn/internal/testkit"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// filled answers a value of a type in which everything is there: texts, numbers, lists of one, optional members.
func filled(of reflect.Type, depth int) reflect.Value {
	v := reflect.New(of).Elem()
	switch {
	case of == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMicro(1_700_000_000_000_000).UTC()))
	case of == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"secret":"the content"}`))
	case of.Kind() == reflect.String:
		v.SetString("the content")
	case of.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	case of.Kind() == reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
		v.Elem().Set(filled(of.Elem(), depth))
	case of.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
		v.Index(0).Set(filled(of.Elem(), depth+1))
	case of.Kind() == reflect.Struct:
		for i := range of.NumField() {
			v.Field(i).Set(filled(of.Field(i).Type, depth+1))
		}
	}
	return v
}

// eventOf is an event of a type with a payload.
func eventOf(kind eventlog.Type, payload any) eventlog.Event {
	event := eventlog.Event{Type: kind.Name, ResourceID: "r-" + kind.Name, Payload: payload}
	if kind.ReportsVersion {
		event.ResourceVersion = 3
	}
	if kind.Personal {
		event.Audience = "ada"
	}
	return event
}

func written() []eventlog.Type {
	var types []eventlog.Type
	for _, kind := range eventlog.Catalogue() {
		if kind.Payload != nil && kind.Durable {
			types = append(types, kind)
		}
	}
	return types
}

func strict(t *testing.T, payload []byte, of reflect.Type) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	into := reflect.New(of)
	require.NoError(t, decoder.Decode(into.Interface()), "%s", payload)
	return into.Elem().Interface()
}

func TestEveryTypeIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		log := newLog(nil)
		types := written()
		for _, kind := range types {
			emit(t, db.DB, log, eventOf(kind, filled(kind.Payload, 0).Interface()))
		}
		records := all(t, db.DB, 0)
		require.Len(t, records, len(types))
		for i, kind := range types {
			t.Run("ES-2.2 "+kind.Name, func(t *testing.T) {
				envelope := records[i].Envelope
				frame, err := json.Marshal(envelope)
				require.NoError(t, err)
				require.NotContains(t, string(frame), "null")
				require.EqualValues(t, i+1, envelope.Seq)
				require.Equal(t, kind.Name, envelope.Type)
				require.Equal(t, 1, envelope.SchemaVersion)
				require.Equal(t, kind.Resource, envelope.Resource.Kind)
				require.Equal(t, kind.ReportsVersion, envelope.Resource.Version > 0, "ES-9.3")
				require.Equal(t, kind.Personal, envelope.Audience == wire.AudienceSelf)
				require.EqualValues(t, 1, envelope.PermissionVersion)
				require.Nil(t, envelope.Actor, "a job without a principal has none")
				require.Equal(t, filled(kind.Payload, 0).Interface(), strict(t, envelope.Payload, kind.Payload))
				var members map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(frame, &members))
				for _, required := range []string{"id", "seq", "type", "schema_version", "occurred_at", "scope", "resource", "payload", "permission_version"} {
					require.Contains(t, members, required)
				}
				for _, missing := range []string{"actor", "redacted", "truncated", "correlation_id", "client_msg_id", "sync_epoch", "redelivered"} {
					require.NotContains(t, members, missing)
				}
			})
		}
	})
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	for _, kind := range eventlog.Catalogue() {
		t.Run("ES-2.2 "+kind.Name, func(t *testing.T) {
			t.Parallel()
			about := kind.Resource == "message" || kind.Resource == "file"
			require.Equal(t, about && kind.Durable, kind.Redact != nil, "types about messages and files say how they are redacted")
			require.Equal(t, kind.Personal, kind.Receive == "audience.receive" || kind.Receive == "notification.receive")
			require.False(t, !kind.Durable && kind.ReportsVersion)
			require.Equal(t, kind.Name, eventlog.TypeOf(kind.Name).Name)
		})
	}
	require.Nil(t, eventlog.TypeOf("nothing.happened"))
}

func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	db := testkit.New(t, testkit.SQLite).DB
	log := newLog(nil)
	good := message("s", "c", "t")
	for name, spoil := range map[string]func(*eventlog.Event){
		"unknown type":        func(e *eventlog.Event) { e.Type = "message.sent" },
		"ephemeral type":      func(e *eventlog.Event) { e.Type, e.Payload = eventlog.TypingStarted, wire.TypingStarted{} },
		"type without shape":  func(e *eventlog.Event) { e.Type = eventlog.RunStateChanged },
		"payload of another":  func(e *eventlog.Event) { e.Payload = wire.PinEvent{} },
		"no payload":          func(e *eventlog.Event) { e.Payload = nil },
		"no resource":         func(e *eventlog.Event) { e.ResourceID = "" },
		"no version":          func(e *eventlog.Event) { e.ResourceVersion = 0 },
		"audience for all":    func(e *eventlog.Event) { e.Audience = "ada" },
		"personal for nobody": func(e *eventlog.Event) { *e = setting("") },
		"version not reported": func(e *eventlog.Event) {
			*e = eventlog.Event{Type: eventlog.PinAdded, ResourceID: "m", ResourceVersion: 1, Payload: wire.PinEvent{}}
		},
		"a null in a list": func(e *eventlog.Event) {
			payload := e.Payload.(wire.MessageEvent) //nolint:forcetypeassert // made above
			payload.Message.MentionIDs = nil
			e.Payload = payload
		},
		"a null in a value": func(e *eventlog.Event) {
			*e = setting("ada")
			e.Payload = wire.SettingEvent{Setting: wire.Setting{Key: "k", Version: 1, Value: json.RawMessage(`{"a":[null]}`)}}
		},
		"too large": func(e *eventlog.Event) {
			payload := e.Payload.(wire.MessageEvent) //nolint:forcetypeassert // made above
			payload.Message.ContentMD = strings.Repeat("x", maxPayload)
			e.Payload = payload
		},
	} {
		t.Run("ES-2.2 "+name+" is refused, and nobody else's write with it", func(t *testing.T) {
			event := good
			spoil(&event)
			require.Error(t, db.Write(t.Context(), nil, func(tx storage.Tx) error { return log.Emit(tx, event) }))
		})
	}
	require.Empty(t, all(t, db, 0))
	emit(t, db, log, good)
	require.Len(t, all(t, db, 0), 1)
	t.Run("ES-2.2 the word null in a text is no null", func(t *testing.T) {
		event := message("s", "c", "t")
		payload := event.Payload.(wire.MessageEvent) //nolint:forcetypeassert // made above
		payload.Message.ContentMD = `a null, a "null" and {"x":null}`
		event.Payload = payload
		emit(t, db, log, event)
	})
	t.Run("ES-2.2 a payload that does not fit is known before, and a reduced one says that it is truncated", func(t *testing.T) {
		payload := good.Payload.(wire.MessageEvent) //nolint:forcetypeassert // made above
		payload.Message.ContentMD = strings.Repeat("x", maxPayload)
		require.False(t, log.Fits(payload))
		payload.Message.ContentMD = "x"
		require.True(t, log.Fits(payload))
		event := good
		event.Payload, event.Truncated = payload, true
		emit(t, db, log, event)
		records := all(t, db, 2)
		require.True(t, records[0].Truncated)
	})
}

func TestRedaction(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, db *testkit.Database) {
		log := newLog(nil)
		var about []eventlog.Type
		for _, kind := range written() {
			if kind.Redact != nil {
				about = append(about, kind)
			}
		}
		at := time.UnixMicro(1_700_000_001_000_000).UTC()
		event := func(kind eventlog.Type, id string) eventlog.Event {
			payload := filled(kind.Payload, 0)
			if deleted := payload.FieldByName("Message"); deleted.IsValid() {
				deleted.FieldByName("DeletedAt").SetZero()
			}
			e := eventOf(kind, payload.Interface())
			e.ResourceID, e.Truncated = id, true
			return e
		}
		for _, kind := range about {
			emit(t, db.DB, log, event(kind, "gone"), event(kind, "kept"))
		}
		// The deletion, with an event of the same transaction before it and one after it.
		require.NoError(t, db.DB.Write(t.Context(), nil, func(tx storage.Tx) error {
			if err := log.Emit(tx, event(about[0], "gone"), event(about[0], "kept")); err != nil {
				return err
			}
			return log.Redact(tx, "gone", at)
		}))
		for _, record := range all(t, db.DB, 0) {
			kind := eventlog.TypeOf(record.Type)
			t.Run("ES-2.2 "+kind.Name+" of what is "+record.Resource.ID, func(t *testing.T) {
				value := strict(t, record.Payload, kind.Payload)
				require.Equal(t, record.Resource.ID == "gone", record.Redacted)
				require.Equal(t, record.Resource.ID == "kept", record.Truncated)
				if record.Resource.ID == "kept" {
					require.Equal(t, event(*kind, "kept").Payload, value)
					return
				}
				require.NotContains(t, string(record.Payload), "null")
				requireRedacted(t, value, at)
			})
		}
	})
}

func requireRedacted(t *testing.T, value any, at time.Time) {
	t.Helper()
	switch value := value.(type) {
	case wire.MessageEvent:
		require.Equal(t, at, *value.Message.DeletedAt)
		require.Empty(t, value.Message.ContentMD)
		require.Empty(t, value.Message.Attachments)
		require.Empty(t, value.Message.MentionIDs)
		require.Empty(t, value.Message.Components)
		require.Empty(t, value.Message.Reactions)
		require.Equal(t, int64(7), value.Message.ThreadSeq)
		require.NotEmpty(t, value.Thread.ID)
	case wire.ReactionEvent:
		require.Empty(t, value.Emoji)
		require.Zero(t, value.Count)
		require.NotEmpty(t, value.MessageID)
	case wire.PinEvent:
		require.True(t, value.Pinned)
	case wire.FileEvent:
		want := wire.File{
			ID: value.File.ID, UploadedBy: "the content", Purpose: "the content", UploadState: "the content", ScanStatus: "the content",
			TranscriptStatus: "the content", MimeType: "application/octet-stream", Thumbnails: []json.RawMessage{},
			CreatedAt: value.File.CreatedAt, Version: 7,
		}
		require.Equal(t, want, value.File)
	default:
		t.Errorf("no expectation for %T", value)
	}
}
