package workspace

import (
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	wire "github.com/cairnsync/cairn/wire/workspace"
)

// Event is one event with its payload decoded.
type Event struct {
	wire.Envelope

	// Data is a pointer to the payload's struct of package wire, such as *wire.MessageEvent for
	// message.created. It is nil for a type that this version does not know (ES-6.1): Payload has it raw.
	Data any
}

// Durable reports whether the event has a place in the log.
func (e Event) Durable() bool { return e.Seq > 0 }

// The types of events this package knows.
const (
	TypeMessageCreated         = "message.created"
	TypeMessageUpdated         = "message.updated"
	TypeMessageDeleted         = "message.deleted"
	TypeReactionAdded          = "reaction.added"
	TypeReactionRemoved        = "reaction.removed"
	TypePinAdded               = "pin.added"
	TypePinRemoved             = "pin.removed"
	TypeThreadCreated          = "thread.created"
	TypeThreadUpdated          = "thread.updated"
	TypeThreadClosed           = "thread.closed"
	TypeThreadReopened         = "thread.reopened"
	TypeThreadMoved            = "thread.moved"
	TypeThreadMovedOut         = "thread.moved_out"
	TypeChannelCreated         = "channel.created"
	TypeChannelUpdated         = "channel.updated"
	TypeChannelArchived        = "channel.archived"
	TypeChannelUnarchived      = "channel.unarchived"
	TypeChannelSettingsChanged = "channel.settings_changed"
	TypeSpaceCreated           = "space.created"
	TypeSpaceUpdated           = "space.updated"
	TypeSpaceArchived          = "space.archived"
	TypeSpaceUnarchived        = "space.unarchived"
	TypePrincipalUpdated       = "principal.updated"
	TypeDeviceUpdated          = "device.updated"
	TypeFileUpdated            = "file.updated"
	TypeImportProgress         = "import.progress"
	TypeAccessChanged          = "access.changed"
	TypeAccessExpiring         = "access.expiring"
	TypeReadStateUpdated       = "read_state.updated"
	TypeDraftUpdated           = "draft.updated"
	TypeDraftDeleted           = "draft.deleted"
	TypeSettingsUpdated        = "settings.updated"
	TypeSidebarUpdated         = "sidebar.updated"
	TypeNotificationUpdated    = "notification_pref.updated"
	TypeQuietHoursUpdated      = "quiet_hours.updated"
	TypeTypingStarted          = "typing.started"
)

func payload[T any](encoded []byte) (any, error) {
	decoded := new(T)
	if err := json.Unmarshal(encoded, decoded); err != nil {
		return nil, err //nolint:wrapcheck // Decode says what it was
	}
	return decoded, nil
}

// payloads has the decoder of each type.
var payloads = map[string]func([]byte) (any, error){
	TypeMessageCreated: payload[wire.MessageEvent], TypeMessageUpdated: payload[wire.MessageEvent],
	TypeMessageDeleted: payload[wire.MessageEvent],
	TypeReactionAdded:  payload[wire.ReactionEvent], TypeReactionRemoved: payload[wire.ReactionEvent],
	TypePinAdded: payload[wire.PinEvent], TypePinRemoved: payload[wire.PinEvent],
	TypeThreadCreated: payload[wire.ThreadEvent], TypeThreadUpdated: payload[wire.ThreadEvent],
	TypeThreadClosed: payload[wire.ThreadEvent], TypeThreadReopened: payload[wire.ThreadEvent],
	TypeThreadMoved: payload[wire.ThreadEvent], TypeThreadMovedOut: payload[wire.ThreadMovedOut],
	TypeChannelCreated: payload[wire.ChannelEvent], TypeChannelUpdated: payload[wire.ChannelEvent],
	TypeChannelArchived: payload[wire.ChannelEvent], TypeChannelUnarchived: payload[wire.ChannelEvent],
	TypeChannelSettingsChanged: payload[wire.ChannelSettingsChanged],
	TypeSpaceCreated:           payload[wire.SpaceEvent], TypeSpaceUpdated: payload[wire.SpaceEvent],
	TypeSpaceArchived: payload[wire.SpaceEvent], TypeSpaceUnarchived: payload[wire.SpaceEvent],
	TypePrincipalUpdated: payload[wire.PrincipalEvent], TypeDeviceUpdated: payload[wire.DeviceEvent],
	TypeFileUpdated: payload[wire.FileEvent], TypeImportProgress: payload[wire.ImportProgress],
	TypeAccessChanged: payload[wire.AccessChanged], TypeAccessExpiring: payload[wire.AccessExpiring],
	TypeReadStateUpdated: payload[wire.ReadStateEvent],
	TypeDraftUpdated:     payload[wire.DraftEvent], TypeDraftDeleted: payload[wire.DraftDeleted],
	TypeSettingsUpdated: payload[wire.SettingEvent], TypeSidebarUpdated: payload[wire.SidebarEvent],
	TypeNotificationUpdated: payload[wire.NotificationPrefEvent], TypeQuietHoursUpdated: payload[wire.QuietHoursEvent],
	TypeTypingStarted: payload[wire.TypingStarted],
}

// Decode decodes the payload of an envelope by its type.
func Decode(envelope wire.Envelope) (Event, error) {
	event := Event{Envelope: envelope}
	decode, known := payloads[envelope.Type]
	if !known {
		return event, nil
	}
	data, err := decode(envelope.Payload)
	if err != nil {
		return event, fmt.Errorf("decode payload of %s %s: %w", envelope.Type, envelope.ID, err)
	}
	event.Data = data
	return event, nil
}

// errFrame is a frame that is not of this protocol.
var errFrame = errors.New("frame is not of this protocol")

// decodeFrame reads a frame strictly: no duplicate names, UTF-8 only, nothing after it. Members nobody
// knows are ignored (ES-6.1).
func decodeFrame(data []byte) (wire.Frame, error) {
	// The wire's raw type is the standard library's; it is decoded as opaque text here.
	var frame struct {
		Op string             `json:"op"`
		D  stdjson.RawMessage `json:"d"`
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		return wire.Frame{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	if frame.Op == "" {
		return wire.Frame{}, fmt.Errorf("%w: it has no op", errFrame)
	}
	return wire.Frame{Op: frame.Op, D: frame.D}, nil
}

// decodeEvent reads the body of a dispatch.
func decodeEvent(data []byte) (Event, error) {
	var envelope wire.Envelope
	if err := json.Unmarshal(data, &envelope); err != nil {
		return Event{}, fmt.Errorf("%w: decode envelope: %w", errFrame, err)
	}
	if envelope.Type == "" || envelope.ID == "" || envelope.Seq < 0 {
		return Event{}, fmt.Errorf("%w: an event has no type, id or place", errFrame)
	}
	return Decode(envelope)
}
