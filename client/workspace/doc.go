// Package workspace is the Go client of the Workspace surface (under /api/v1): team chat over one
// commit-ordered event log.
//
// It has these layers, each usable without those after it:
//
//   - Key and KeyStore: the key a device proves itself with (DPoP), made once.
//   - Client: sign-in, refresh, and one typed method per route of REST. Errors are *Problem.
//   - Gateway: the WebSocket. It identifies, resumes and catches up, hands events to a Sink in order, each
//     once, and reacts to every close code as the protocol says (ES-6.4).
//   - State: a pure copy of what a principal sees, which events and loaded objects change by their versions
//     (ES-9.3).
//   - Outbox: durable writes, in order per thread, repeated until the server has them (ES-13.2).
//   - Account: all of it together, on one Store. Package localstore beside this one has a Store in an
//     encrypted file.
//
// # Order
//
// Durable events come in seq order. What a Sink was told to store with Page is where the next connection,
// also of another process, goes on. Writes of one thread reach the server in the order they were queued.
//
// # Blocking
//
// Every call takes a context and ends with it. A Gateway reads as fast as its Sink takes; a Sink that is too
// slow is cut by the server (4014) and caught up. Refreshing tokens outlives its caller, for at most 20
// seconds: a lost answer would cost the sign-in.
//
// # Concurrency
//
// Everything is safe for concurrent use, except that Run of a Gateway, an Outbox and an Account works once at
// a time. Only Run methods own goroutines, and wait for them.
//
// # Bounds
//
// Answers, frames, the outbox, open threads, remembered counts and waits are bounded; each constant or option
// says how. Tokens and proofs travel in headers and frames only: never in a URL, an error or a trace line, and
// never to another origin than the configured one.
package workspace
