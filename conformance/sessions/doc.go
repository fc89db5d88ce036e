// Package sessions is a black-box conformance suite for servers of Shared Sessions v1.
//
// It speaks to a base URL with the keys of four accounts and knows nothing else of the server:
//
//	go test ./conformance/sessions -v -url https://sync.example.org -keys owner,editor,viewer,stranger
//
// Add -ours for the extensions of cairn, and -report path to keep the report in a file (go test hides
// the output of a passing run without -v). The report has one line per rule of the specification:
// pass, fail with the first failing case, or skip with the reason.
//
// [Run] is the same suite as a function, for a server started in the same process. Cases run
// concurrently on sessions and devices of their own, which they delete when they end; organisations
// cannot be deleted and stay. A case never sleeps: it waits for a condition, at most as long as its
// patience. Everything blocks at most until the deadline of its case. What becomes of
// the rules is a [rulebook.Report].
package sessions
