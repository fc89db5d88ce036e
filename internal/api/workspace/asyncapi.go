package workspace

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/cairnsync/cairn/internal/eventlog"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

// object is a JSON object of the document.
type object = map[string]any

// clientFrames and serverFrames are what each side sends, by op.
var (
	clientFrames = map[string]reflect.Type{
		wire.OpIdentify: reflect.TypeFor[wire.Identify](), wire.OpResume: reflect.TypeFor[wire.Resume](),
		wire.OpHeartbeat: reflect.TypeFor[wire.Heartbeat](), wire.OpReauth: reflect.TypeFor[wire.Reauth](),
		wire.OpFocus: reflect.TypeFor[wire.Focus](), wire.OpTypingStart: reflect.TypeFor[wire.Typing](),
		wire.OpTypingStop: reflect.TypeFor[wire.Typing](),
	}
	serverFrames = map[string]reflect.Type{
		wire.OpHello: reflect.TypeFor[wire.Hello](), wire.OpReady: reflect.TypeFor[wire.Ready](),
		wire.OpResumed: reflect.TypeFor[wire.Resumed](), wire.OpCursor: reflect.TypeFor[wire.Cursor](),
		wire.OpCatchupComplete: reflect.TypeFor[wire.CatchupComplete](), wire.OpResyncRequired: reflect.TypeFor[wire.Resync](),
		wire.OpHeartbeatAck: reflect.TypeFor[wire.HeartbeatAck](), wire.OpReauthRequired: reflect.TypeFor[wire.ReauthRequired](),
		wire.OpError: reflect.TypeFor[wire.OpFailed](),
	}
)

// AsyncAPI makes the document of the gateway (AsyncAPI 3.0), as YAML, of the catalogue of events and the types
// of the frames.
func AsyncAPI() []byte {
	s := newSchemas()
	s.of(reflect.TypeFor[wire.Envelope]())
	fromClient, fromServer := s.frames(clientFrames), s.frames(serverFrames)
	for _, event := range eventlog.Catalogue() {
		if event.Payload != nil {
			fromServer["dispatch."+event.Name] = s.dispatch(event)
		}
	}
	s.clean()
	all := object{}
	for _, side := range []object{fromClient, fromServer} {
		maps.Copy(all, side)
	}
	references := object{}
	for name := range all {
		references[name] = object{"$ref": "#/components/messages/" + name}
	}
	return yamlOf(object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Cairn Workspace gateway", "version": strconv.Itoa(wire.ProtocolVersion),
			"license":             object{"name": "Apache-2.0"},
			"x-protocol-versions": []int{wire.ProtocolVersion},
		},
		"defaultContentType": typeJSON,
		"channels": object{"gateway": object{
			"address": Prefix + "/gateway", "description": "A WebSocket. Every frame is one JSON text message.", "messages": references,
		}},
		"operations": object{
			"fromClient": operation("receive", fromClient),
			"fromServer": operation("send", fromServer),
		},
		"components": object{"messages": all, "schemas": s.registry.Map()},
	})
}

// operation lists what one side sends; the document is written from the server's side.
func operation(action string, messages object) object {
	names := make([]string, 0, len(messages))
	for name := range messages {
		names = append(names, name)
	}
	slices.Sort(names)
	list := make([]object, 0, len(names))
	for _, name := range names {
		list = append(list, object{"$ref": "#/channels/gateway/messages/" + name})
	}
	return object{"action": action, "channel": object{"$ref": "#/channels/gateway"}, "messages": list}
}

func (s *schemas) frames(types map[string]reflect.Type) object {
	all := object{}
	for op, t := range types {
		all[op] = message(op, s.of(t), !s.optional(t))
	}
	return all
}

// message is a frame {op, d}.
func message(op string, d any, required bool) object {
	members := []string{"op"}
	if required {
		members = append(members, "d")
	}
	return object{
		"name": op,
		"payload": object{
			"type": "object", "additionalProperties": false, "required": members,
			"properties": object{"op": object{"const": op}, "d": d},
		},
	}
}

// dispatch is the frame of one type of event: the envelope, with what this type has in it (ES-2.2).
func (s *schemas) dispatch(event eventlog.Type) object {
	required := []string{"type", "schema_version", "payload", "resource"}
	properties := object{
		"type": object{"const": event.Name}, "schema_version": object{"const": event.Version}, "payload": s.of(event.Payload),
		"resource": s.resource(event),
	}
	if event.Durable {
		required = append(required, "seq", "permission_version")
	} else {
		properties["seq"] = false
	}
	if event.Personal {
		properties["audience"] = object{"const": wire.AudienceSelf}
		required = append(required, "audience")
	} else {
		properties["audience"] = false
	}
	envelope := object{"allOf": []any{
		s.of(reflect.TypeFor[wire.Envelope]()), object{"required": required, "properties": properties},
	}}
	described := message(wire.OpDispatch, envelope, true)
	described["summary"] = event.Name
	described["x-receive-action"] = string(event.Receive)
	return described
}

// resource has a version exactly in the types that report one (ES-9.3).
func (s *schemas) resource(event eventlog.Type) object {
	if event.ReportsVersion {
		return object{"required": []string{"kind", "id", "version"}, "properties": object{"kind": object{"const": event.Resource}}}
	}
	return object{"properties": object{"kind": object{"const": event.Resource}, "version": false}}
}
