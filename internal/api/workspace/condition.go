package workspace

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/cairnsync/cairn/internal/fault"
	"github.com/cairnsync/cairn/internal/workspace/place"
	wire "github.com/cairnsync/cairn/wire/workspace"
)

const headerIfMatch = "If-Match"

// conditionOf reads If-Match: one strong entity tag of ours, or "*" (RFC 9110 section 13.1.1). It answers the
// version as the domain takes it: nil without the header, place.AnyVersion for "*".
func conditionOf(r *http.Request) (*int64, error) {
	lines := r.Header.Values(headerIfMatch)
	if len(lines) == 0 {
		return nil, nil
	}
	tag := strings.Trim(strings.Join(lines, ","), " \t")
	if tag == "*" {
		whatever := place.AnyVersion
		return &whatever, nil
	}
	version, valid := versionOfTag(tag)
	if !valid {
		return nil, fault.Invalid(headerIfMatch, `must be the ETag of the object, such as "7", or *`)
	}
	return &version, nil
}

// versionOfTag reads "7" with its quotes: digits without a sign or leading zeros, as an ETag of ours is.
func versionOfTag(tag string) (int64, bool) {
	digits, quoted := strings.CutPrefix(tag, `"`)
	if !quoted {
		return 0, false
	}
	if digits, quoted = strings.CutSuffix(digits, `"`); !quoted {
		return 0, false
	}
	version, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || version < 1 || strconv.FormatInt(version, 10) != digits {
		return 0, false
	}
	return version, true
}

func tagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// versionOf answers the version of an object that has one.
func versionOf(object any) (int64, bool) {
	switch o := object.(type) {
	case wire.Principal:
		return o.Version, true
	case wire.Group:
		return o.Version, true
	case wire.Space:
		return o.Version, true
	case wire.Channel:
		return o.Version, true
	case wire.ChannelSettings:
		return o.SettingsVersion, true
	case wire.Thread:
		return o.Version, true
	case wire.Message:
		return o.Version, true
	case wire.File:
		return o.Version, true
	case wire.Import:
		return o.Version, true
	default:
		return personalVersion(object)
	}
}

func personalVersion(object any) (int64, bool) {
	switch o := object.(type) {
	case wire.ReadState:
		return o.Version, true
	case wire.Draft:
		return o.Version, true
	case wire.Setting:
		return o.Version, true
	case wire.Sidebar:
		return o.Version, true
	case wire.NotificationPref:
		return o.Version, true
	case wire.QuietHours:
		return o.Version, true
	default:
		return 0, false
	}
}
