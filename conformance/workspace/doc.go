// Package workspace is a black-box conformance suite for the people's part of the Workspace surface: the event log,
// the gateway, permissions and messages of the event and sync protocol (rules ES-…) and what it stands on (WS-…).
//
// It speaks to the nodes of an instance by HTTP and WebSocket and knows nothing else of the server; what only its
// operator can do (start one with other settings, make the first login code, restart, restore) is behind [Operator]
// and [Instance]. Every answer and every frame is held against the documents that the instance publishes.
//
//	go test ./conformance/workspace -v -url https://sync.example.org -owner ID -login-code 'cairn user login-code'
//
// asks a running instance, without what needs its operator. The report has one line per rule: pass, fail with the
// first failing case, or skip with the reason.
//
// [Run] is the same suite as a function, for instances that the caller starts. Cases run concurrently, in spaces and
// with people of their own; people cannot be deleted and stay. A case never sleeps: it waits for a condition.
// Values of this package are used by one run only, except the report, which may be read and written concurrently.
package workspace
