package workspace

import (
	"strings"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/workspace/place"
)

// The longest texts, in characters; those of a message are configured.
const (
	maxName   = 100
	maxTitle  = 200
	maxTopic  = 1000
	maxPrompt = 20_000
	// maxPolicy is the largest backend policy, in bytes.
	maxPolicy = 16 << 10
	// maxAgents is how many agents the settings of a channel name.
	maxAgents = 100
)

// checkName is place.Text for what must not be empty.
func checkName(pointer, text string, most int) error {
	if strings.TrimSpace(text) == "" {
		return fault.Invalid(pointer, "must not be empty")
	}
	return place.Text(pointer, text, most)
}

// checkClear refuses names of members that cannot be cleared, and those that are set at the same time.
func checkClear(names []string, allowed string, alsoSet bool) (clears bool, err error) {
	for _, name := range names {
		if name != allowed {
			return false, fault.Invalid("/clear", "may only name %q", allowed)
		}
		clears = true
	}
	if clears && alsoSet {
		return false, fault.Invalid("/clear", "names %q, which is set at the same time", allowed)
	}
	return clears, nil
}

// clientID is place.BodyID for ids that clients make: of version 7; the time in it does not matter (ES-5.1).
func clientID(pointer, id string) (string, error) {
	canonical, err := place.BodyID(pointer, id)
	if err != nil {
		return "", err
	}
	if canonical[14] != '7' || !strings.ContainsRune("89ab", rune(canonical[19])) {
		return "", fault.Invalid(pointer, "must be a UUID of version 7")
	}
	return canonical, nil
}

// unknown refuses an id in a body that names nothing the caller may use (WS-AZ-5).
func unknown(pointer, what string) error { return fault.Invalid(pointer, "names no %s", what) }
