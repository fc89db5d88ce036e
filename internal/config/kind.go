package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type duration = time.Duration

// kind is how a setting reads and shows its value. set answers false, and may leave anything behind,
// when text is not allowed.
type kind struct {
	allowed string
	set     func(c *Config, text string) bool
	show    func(c Config) string
	redact  func(text string) string // nil when nothing of it is secret
	hint    func(text string) string // what a wrong text may have meant, or ""; nil when nobody can tell
}

func (k kind) public(text string) string {
	if k.redact == nil {
		return text
	}
	return k.redact(text)
}

// instead answers what to write instead of a wrong text.
func (k kind) instead(text string) string {
	if k.hint == nil {
		return ""
	}
	return k.hint(text)
}

func text(at func(*Config) *string, allowed string) kind {
	return kind{
		allowed: allowed,
		set: func(c *Config, text string) bool {
			*at(c) = text
			return !strings.ContainsAny(text, "\x00\r\n")
		},
		show: func(c Config) string { return *at(&c) },
	}
}

// checked is a text that must satisfy valid.
func checked(at func(*Config) *string, allowed string, valid func(string) bool) kind {
	plain := text(at, allowed)
	return kind{
		allowed: allowed,
		set:     func(c *Config, text string) bool { return plain.set(c, text) && valid(text) },
		show:    plain.show,
	}
}

func choice(at func(*Config) *string, choices ...string) kind {
	return checked(at, "one of "+strings.Join(choices, ", "), func(text string) bool {
		return slices.Contains(choices, text)
	})
}

func address(at func(*Config) *string, optional bool) kind {
	allowed := "host:port with a port from 0 to 65535"
	if optional {
		allowed += ", or empty"
	}
	return checked(at, allowed, func(text string) bool {
		if text == "" {
			return optional
		}
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil
	})
}

func endpoint(at func(*Config) *string) kind {
	return checked(at, "an http or https URL without user, query or fragment", func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && webScheme(u) && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	})
}

// optionalEndpoint is an endpoint that may be empty.
func optionalEndpoint(at func(*Config) *string) kind {
	k := endpoint(at)
	set := k.set
	k.allowed += ", or empty"
	k.set = func(c *Config, text string) bool {
		*at(c) = text
		return text == "" || set(c, text)
	}
	return k
}

// secret is a text that is never shown.
func secret(at func(*Config) *string, allowed string) kind {
	k := text(at, allowed)
	k.redact = func(text string) string {
		if text == "" {
			return ""
		}
		return hidden
	}
	return k
}

func webScheme(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

func origins(at func(*Config) *[]string) kind {
	return kind{
		allowed: "origins such as https://app.example.org, separated by commas, or one *",
		set: func(c *Config, text string) bool {
			list := []string{}
			for origin := range strings.SplitSeq(text, ",") {
				if origin = strings.TrimSpace(origin); origin != "" {
					list = append(list, origin)
				}
			}
			*at(c) = list
			return slices.Equal(list, []string{"*"}) || !slices.ContainsFunc(list, notOrigin)
		},
		show: func(c Config) string { return strings.Join(*at(&c), ",") },
	}
}

// notOrigin is true unless text is exactly what a browser sends as Origin.
func notOrigin(text string) bool {
	u, err := url.Parse(text)
	return err != nil || !webScheme(u) || u.Host == "" || text != u.Scheme+"://"+strings.ToLower(u.Host)
}

// networks is a list of networks, or of addresses alone.
func networks(at func(*Config) *[]netip.Prefix) kind {
	return kind{
		allowed: "networks such as 10.0.0.0/8, or addresses, separated by commas",
		set: func(c *Config, text string) bool {
			list, fine := []netip.Prefix{}, true
			for one := range strings.SplitSeq(text, ",") {
				if one = strings.TrimSpace(one); one == "" {
					continue
				}
				network, err := netip.ParsePrefix(one)
				if address, wrong := netip.ParseAddr(one); wrong == nil && address.Zone() == "" {
					network, err = address.Prefix(address.BitLen())
				}
				list, fine = append(list, network.Masked()), fine && err == nil && !network.Addr().Is4In6()
			}
			*at(c) = list
			return fine
		},
		show: func(c Config) string {
			texts := make([]string, len(*at(&c)))
			for i, network := range *at(&c) {
				texts[i] = network.String()
			}
			return strings.Join(texts, ",")
		},
	}
}

func integer[T int | int64](at func(*Config) *T, low, high T) kind {
	return kind{
		allowed: fmt.Sprintf("a whole number from %d to %d", low, high),
		set: func(c *Config, text string) bool {
			number, err := strconv.ParseInt(text, 10, strconv.IntSize)
			*at(c) = T(number)
			return err == nil && within(T(number), low, high)
		},
		show: func(c Config) string { return strconv.FormatInt(int64(*at(&c)), 10) },
	}
}

func decimal(at func(*Config) *float64, high float64) kind {
	return kind{
		allowed: fmt.Sprintf("a number from 0 to %.0f", high),
		set: func(c *Config, text string) bool {
			number, err := strconv.ParseFloat(text, 64)
			*at(c) = number
			return err == nil && !math.IsNaN(number) && within(number, 0, high)
		},
		show: func(c Config) string { return strconv.FormatFloat(*at(&c), 'g', -1, 64) },
	}
}

func truth(at func(*Config) *bool) kind {
	return kind{
		allowed: "true or false",
		set: func(c *Config, text string) bool {
			*at(c) = text == "true"
			return text == "true" || text == "false"
		},
		show: func(c Config) string { return strconv.FormatBool(*at(&c)) },
	}
}

func span(at func(*Config) *duration, low, high string) kind {
	least, most := mustDuration(low), mustDuration(high)
	return kind{
		allowed: fmt.Sprintf("a duration from %s to %s", low, high),
		set: func(c *Config, text string) bool {
			length, err := parseDuration(text)
			*at(c) = length
			return err == nil && within(length, least, most)
		},
		show: func(c Config) string { return shortDuration(*at(&c)) },
	}
}

// rate is so many in such a time: 120/1m.
func rate(at func(*Config) *Rate) kind {
	const most = 1_000_000
	return kind{
		allowed: fmt.Sprintf("a whole number from 1 to %d, a slash and a duration from 1s to 24h, such as 120/1m", most),
		set: func(c *Config, text string) bool {
			many, length, _ := strings.Cut(text, "/")
			count, wrongCount := strconv.ParseInt(many, 10, 32)
			per, wrongPer := parseDuration(length)
			*at(c) = Rate{Count: int(count), Per: per}
			return wrongCount == nil && wrongPer == nil && within(count, 1, most) && within(per, time.Second, day)
		},
		show: func(c Config) string { return strconv.Itoa(at(&c).Count) + "/" + shortDuration(at(&c).Per) },
	}
}

func mustDuration(text string) time.Duration {
	length, err := parseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("bound of a duration: %v", err)) // the table is wrong; every test sees it
	}
	return length
}

const (
	day     = 24 * time.Hour
	maxDays = 36_500
)

// parseDuration reads what time.ParseDuration reads, with whole days in front or alone: 30d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text) //nolint:wrapcheck // callers show what is allowed instead
	}
	count, err := strconv.ParseUint(days, 10, 32)
	if err != nil || count > maxDays {
		return 0, fmt.Errorf("%q is no number of days", days)
	}
	length := time.Duration(count) * day
	if rest == "" {
		return length, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || more >= day {
		return 0, fmt.Errorf("%q is no part of a day", rest)
	}
	return length + more, nil
}

// shortDuration writes 30m instead of 30m0s, and whole days from two on as such.
func shortDuration(length time.Duration) string {
	if length >= 2*day && length%day == 0 {
		return strconv.FormatInt(int64(length/day), 10) + "d"
	}
	text := length.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func within[T cmp.Ordered](value, low, high T) bool { return value >= low && value <= high }
