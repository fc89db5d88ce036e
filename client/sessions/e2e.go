package sessions

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	wire "github.com/cairnsync/cairn/wire/sessions"
)

// recipientLength is the length of an age X25519 recipient; it fits into a capability (SS-E2E-2).
const recipientLength = 62

// Errors of sealing.
var (
	// ErrTooManyRecipients is a payload for more than 64 recipients (SS-E2E-2).
	ErrTooManyRecipients = errors.New("payload has more than 64 recipients")
	// ErrNotSealed is a payload that is not of the form {"hide":"<base64>"}.
	ErrNotSealed = errors.New("payload is not sealed")
)

// sealed is the form of an end-to-end encrypted payload (SS-E2E-1).
type sealed struct {
	Hide *string `json:"hide"`
}

// Identity is a device's key pair for end-to-end encryption (age X25519).
type Identity struct {
	Secret    string // AGE-SECRET-KEY-1…; never leaves the device
	Recipient string // age1…, 62 characters; published in the device's capabilities
}

// NewIdentity makes a fresh key pair.
func NewIdentity() (Identity, error) {
	made, err := age.GenerateX25519Identity()
	if err != nil {
		return Identity{}, fmt.Errorf("make identity: %w", err)
	}
	return Identity{Secret: made.String(), Recipient: made.Recipient().String()}, nil
}

// RecipientOf answers the recipient (age1…) of a secret (AGE-SECRET-KEY-1…).
func RecipientOf(secret string) (string, error) {
	identity, err := parseSecret(secret)
	if err != nil {
		return "", err
	}
	return identity.Recipient().String(), nil
}

// Seal encrypts a JSON payload for 1 to 64 recipients (age1…, repeated ones count once) and answers
// {"hide":"<base64>"}. Kind, ts, sender and turn_id of the event stay in clear, and so do titles and
// controls: the protocol has no place to seal those (SS-E2E-1).
func Seal(payload json.RawMessage, recipients []string) (json.RawMessage, error) {
	if !json.Valid(payload) {
		return nil, errors.New("seal payload: not JSON")
	}
	keys, err := parseRecipients(recipients)
	if err != nil {
		return nil, fmt.Errorf("seal payload: %w", err)
	}
	var box bytes.Buffer
	writer, err := age.Encrypt(&box, keys...)
	if err != nil {
		return nil, fmt.Errorf("seal payload: %w", err)
	}
	if _, err := writer.Write(payload); err != nil {
		return nil, fmt.Errorf("seal payload: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("seal payload: %w", err)
	}
	return json.RawMessage(`{"hide":"` + base64.StdEncoding.EncodeToString(box.Bytes()) + `"}`), nil
}

func parseRecipients(recipients []string) ([]age.Recipient, error) {
	unique := distinct(recipients)
	switch {
	case len(unique) == 0:
		return nil, errors.New("no recipients")
	case len(unique) > wire.MaxRecipients:
		return nil, ErrTooManyRecipients
	}
	keys := make([]age.Recipient, 0, len(unique))
	for _, text := range unique {
		key, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, fmt.Errorf("parse recipient: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func distinct(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	var unique []string
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			unique = append(unique, text)
		}
	}
	return unique
}

// IsSealed reports whether a payload has the form {"hide":"…"}.
func IsSealed(payload json.RawMessage) bool {
	_, err := hidden(payload)
	return err == nil
}

func hidden(payload json.RawMessage) (string, error) {
	var form sealed
	if err := json.Unmarshal(payload, &form); err != nil || form.Hide == nil {
		return "", ErrNotSealed
	}
	return *form.Hide, nil
}

// Open decrypts what Seal made, with a secret (AGE-SECRET-KEY-1…) of one of its recipients. It answers
// ErrNotSealed for another payload.
func Open(payload json.RawMessage, secret string) (json.RawMessage, error) {
	identity, err := parseSecret(secret)
	if err != nil {
		return nil, err
	}
	return openWith(payload, identity)
}

func parseSecret(secret string) (*age.X25519Identity, error) {
	identity, err := age.ParseX25519Identity(secret)
	if err != nil {
		return nil, errors.New("parse identity: not an AGE-SECRET-KEY-1… of X25519") // the cause might repeat it
	}
	return identity, nil
}

func openWith(payload json.RawMessage, identity age.Identity) (json.RawMessage, error) {
	text, err := hidden(payload)
	if err != nil {
		return nil, err
	}
	box, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open payload: %w", err)
	}
	reader, err := age.Decrypt(bytes.NewReader(box), identity)
	if err != nil {
		return nil, fmt.Errorf("open payload: %w", err)
	}
	plain, err := io.ReadAll(reader) // never longer than box
	if err != nil {
		return nil, fmt.Errorf("open payload: %w", err)
	}
	if !json.Valid(plain) {
		return nil, errors.New("open payload: what was sealed is not JSON")
	}
	return plain, nil
}

// FixedRecipients is ExecutorOptions.Recipients for recipients that never change.
func FixedRecipients(recipients ...string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) { return recipients, nil }
}

// Recipients answers the age recipients that devices publish in their capabilities, each once. The protocol shows
// capabilities only of one's own devices (Client.Devices); for those of a session's members see MemberRecipients.
func Recipients(devices []wire.Device) []string {
	var found []string
	for _, device := range devices {
		for _, capability := range device.Capabilities {
			if isRecipient(capability) {
				found = append(found, capability)
			}
		}
	}
	return distinct(found)
}

func isRecipient(text string) bool {
	if len(text) != recipientLength || !strings.HasPrefix(text, "age1") {
		return false
	}
	_, err := age.ParseX25519Recipient(text)
	return err == nil
}

// PublishRecipient puts a recipient into the calling device's capabilities, in place of an older one.
func (c *Client) PublishRecipient(ctx context.Context, recipient string) (wire.Device, error) {
	if !isRecipient(recipient) {
		return wire.Device{}, errors.New("publish recipient: not an age1… of X25519")
	}
	devices, err := c.Devices(ctx)
	if err != nil {
		return wire.Device{}, err
	}
	capabilities := []string{}
	for _, device := range devices {
		if !strings.EqualFold(device.ID, c.config.Device.ID) {
			continue
		}
		for _, capability := range device.Capabilities {
			if !isRecipient(capability) {
				capabilities = append(capabilities, capability)
			}
		}
	}
	capabilities = append(capabilities, recipient)
	return c.PatchDevice(ctx, c.config.Device.ID, DevicePatch{Capabilities: &capabilities})
}

// opener opens the payloads of a Viewer's events.
type opener struct{ identity *age.X25519Identity }

func newOpener(secret string) (*opener, error) {
	if secret == "" {
		return &opener{}, nil
	}
	identity, err := parseSecret(secret)
	if err != nil {
		return nil, err
	}
	return &opener{identity}, nil
}

// open replaces a sealed payload by what is in it, or notes why it could not.
func (o *opener) open(frame *EventFrame) {
	frame.Sealed = IsSealed(frame.Payload)
	if !frame.Sealed || o.identity == nil {
		return
	}
	plain, err := openWith(frame.Payload, o.identity)
	if err != nil {
		frame.OpenErr = err
		return
	}
	frame.Payload = plain
}

// MemberRecipients answers the age recipients that the devices of a session's members publish, each once: it is what
// ExecutorOptions.Recipients asks for. More than 64 are ErrTooManyRecipients.
func (c *Client) MemberRecipients(ctx context.Context, ref string) ([]string, error) {
	detail, err := c.GetSession(ctx, ref)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, member := range detail.Members {
		for _, device := range member.Devices {
			if isRecipient(device.Recipient) {
				found = append(found, device.Recipient)
			}
		}
	}
	found = distinct(found)
	if len(found) > wire.MaxRecipients {
		return nil, fmt.Errorf("%w: the members' devices publish %d; remove devices or shares", ErrTooManyRecipients, len(found))
	}
	return found, nil
}
