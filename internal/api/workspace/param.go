package workspace

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairnsync/cairn/internal/env"
)

// ParamKind is what a query parameter holds.
type ParamKind int

// The kinds of parameters.
const (
	Text   ParamKind = iota
	Number           // an integer from Least
	ID               // a UUID
	Choice           // one of Values
	Flag             // true or false
)

// Param is a query parameter of a route. All are optional unless Required; unknown ones are ignored.
type Param struct {
	Name, Doc string
	Kind      ParamKind
	Least     int64
	Values    []string
	Required  bool
}

// maxText is the longest text of a parameter.
const maxText = 1000

// The parameters of every list.
var (
	cursorParam = Param{Name: "cursor", Doc: "next_cursor of the page before"}
	limitParam  = Param{Name: "limit", Doc: "how many at most; more than 100 is 100", Kind: Number, Least: 1}
)

func paged(more ...Param) []Param { return append(more, cursorParam, limitParam) }

// params are the parameters of a request, checked.
type params struct {
	texts   map[string]string
	numbers map[string]int64
}

// readParams reads what the route knows and collects what is wrong.
func readParams(r *http.Request, known []Param, found *problems) *params {
	p := &params{texts: map[string]string{}, numbers: map[string]int64{}}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		found.addf("query", "is not well formed")
	}
	for i := range known {
		values := query[known[i].Name]
		switch {
		case len(values) == 0 && known[i].Required:
			found.addf(known[i].Name, "is required")
		case len(values) > 1:
			found.addf(known[i].Name, "must be given once only")
		case len(values) == 1:
			p.read(&known[i], values[0], found)
		default:
		}
	}
	return p
}

func (p *params) read(param *Param, text string, found *problems) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) || utf8.RuneCountInString(text) > maxText {
		found.addf(param.Name, "must be valid UTF-8 of at most %d characters", maxText)
		return
	}
	switch param.Kind {
	case Number:
		number, valid := parseNumber(text)
		if !valid || number < param.Least {
			found.addf(param.Name, "must be an integer from %d", param.Least)
			return
		}
		p.numbers[param.Name] = number
	case ID:
		id, valid := env.ParseID(text)
		if !valid {
			found.addf(param.Name, "must be a UUID")
			return
		}
		p.texts[param.Name] = id
	case Choice:
		if !slices.Contains(param.Values, text) {
			found.addf(param.Name, "must be one of %s", strings.Join(param.Values, ", "))
			return
		}
		p.texts[param.Name] = text
	case Flag:
		if text != "true" && text != "false" {
			found.addf(param.Name, "must be true or false")
			return
		}
		p.texts[param.Name] = text
	default:
		p.texts[param.Name] = text
	}
}

// parseNumber reads digits; what is larger than an int64 is the largest one, so that limits clamp.
func parseNumber(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return number, true
}

// optional answers a number that was given, or nil.
func (p *params) optional(name string) *int64 {
	if number, given := p.numbers[name]; given {
		return &number
	}
	return nil
}

// limit answers the size of a page, clamped.
func (p *params) limit(standard, most int64) int {
	if number, given := p.numbers["limit"]; given {
		return int(min(number, most))
	}
	return int(standard)
}
