// Package workspace is the REST of the Workspace surface, under /api/v1: it maps requests to the domain and
// its answers to JSON (workspace specification, section 4).
//
// Contract. Every route is a row of one table: its method, path, action, parameters, and the types of its
// body and its answer. The table registers the routes and makes the OpenAPI document. A request is taken in
// the order of WS-AZ-5: who asks, the form of what was sent, then the domain, which authorises in the
// transaction that executes. Nothing of the body is read before the caller is known. Every error is a problem
// of RFC 9457; what is no refusal of ours is logged in full under the request's trace id and shown as an
// internal error. Bodies are decoded strictly, and one refusal names everything that is wrong.
//
// Order. A write with an Idempotency-Key runs once: while it runs its repeat is request_in_progress, after it
// the domain answers the repeat from what it stored in the write's own transaction (ES-5.2).
//
// Bounds. Bodies and large answers share budgets, tables of rates forget the idle; past a budget a request is
// refused and may be tried again.
//
// Blocking and concurrency. Handlers block on the database and on the client only; the API is safe for
// concurrent use. The gateway's connections leave net/http and belong to package gateway.
package workspace
