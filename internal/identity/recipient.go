package identity

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// recipientForm is what an age X25519 recipient looks like: 62 characters of lower-case bech32 (BIP 173).
var recipientForm = regexp.MustCompile(`^age1[02-9ac-hj-np-z]{58}$`)

// RecipientIn answers the age recipient that a device publishes (SS-E2E-2): the first one among its stored
// capabilities, "" for none. It looks at the form only.
func RecipientIn(capabilities string) (string, error) {
	if !strings.Contains(capabilities, `"age1`) {
		return "", nil // most devices: nothing to decode
	}
	var list []string
	if err := json.Unmarshal([]byte(capabilities), &list); err != nil {
		return "", fmt.Errorf("read capabilities of device: %w", err)
	}
	for _, capability := range list {
		if recipientForm.MatchString(capability) {
			return capability, nil
		}
	}
	return "", nil
}
