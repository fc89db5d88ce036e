// Package sessions is the Go client of Shared Sessions v1 (the surface under /v1).
//
// One AI-agent session is open on many devices: one device executes (it holds the lease and appends
// events), the others watch and steer. The package has three layers:
//
//   - Client: one typed method per route. A method makes one request, except that reads and the
//     idempotent writes (control, dispatch, applied) are repeated on lost answers, 429 and 5xx, with the
//     same control id, so one intention stays one control (SS-CON-2).
//   - Viewer: the stream of a session over SSE or WebSocket. It resumes where it stopped, proves that no
//     event is missing or repeated, and hands out frames in order (SS-CON-1).
//   - Executor: takes the lease, keeps it, appends events in batches, delivers controls, and stops the
//     moment the lease is lost (SS-CON-3).
//
// Seal and Open carry end-to-end encrypted payloads (SS-E2E-2). Package trace beside this one has the
// payloads of the trace vocabulary.
//
// # Order
//
// Events come in seq order, each once. Controls reach an Executor in seq order, each once per Executor.
// Frames that are not events (lease, presence, applied controls) show the newest state and may be skipped.
//
// # Blocking
//
// Every call takes a context and ends with it. A Viewer reads only as fast as its consumer: a consumer
// that is too slow is cut by the server and resumes. Emit blocks while the Executor's queue is full.
//
// # Concurrency
//
// A Client and an Executor are safe for concurrent use. A Viewer runs once at a time; its other methods
// may be called while it runs. Only an Executor owns goroutines; its Stop waits for them.
//
// # Bounds
//
// Answers, stream frames, the executor's queue and batches are bounded; each option says its default.
// The key is sent in the Authorization header only: never in a URL, an error or a trace line, and never
// to another origin than the configured one.
package sessions
