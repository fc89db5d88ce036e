// Package guard keeps the HTTP surfaces within bounds: which pages may use them, how often somebody may
// ask, and how much memory all requests together may hold.
//
// Contract. Nothing here knows a protocol: what is past a bound is reported, and the surface says so in its
// own words. Every table and budget has a bound.
//
// Blocking and concurrency. Reading a body and sending an answer wait for the client; everything else is
// immediate. All of it is safe for concurrent use.
package guard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Origins is a CORS allow-list; an empty one allows the server's own origin only.
type Origins struct {
	list []string
	any  bool
	// requests and answers are the headers that pages may send and read, as CORS lists them.
	requests, answers string
}

// NewOrigins makes the list; "*" in it allows all.
func NewOrigins(list, requestHeaders, answerHeaders []string) Origins {
	return Origins{
		list: list, any: slices.Contains(list, "*"),
		requests: strings.Join(requestHeaders, ", "), answers: strings.Join(answerHeaders, ", "),
	}
}

// Allowed reports whether a page of the request's origin may use the surface. Requests without an
// origin come from no page.
func (o Origins) Allowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || o.listed(origin) {
		return true
	}
	parsed, err := url.Parse(origin)
	return err == nil && strings.EqualFold(parsed.Host, r.Host)
}

func (o Origins) listed(origin string) bool { return o.any || slices.Contains(o.list, origin) }

// Answer sets the CORS headers and reports whether the request was a preflight, which it answers.
func (o Origins) Answer(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	w.Header().Add("Vary", "Origin")
	if o.listed(origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", o.answers)
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	w.Header().Set("Access-Control-Allow-Headers", o.requests)
	w.Header().Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
