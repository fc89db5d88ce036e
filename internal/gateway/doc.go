// Package gateway brings the event log to its receivers, as the permissions of the moment allow (ES-6…10, 12.1).
//
// Contract. Every event of the log that a principal may receive when it is its turn reaches each of its
// connections once, in the order of the log, and nothing else does: the receive action of the event's type is
// asked for each receiver at the moment of the delivery. A connection that comes with a cursor gets the
// events behind it first, then what was committed meanwhile, then what happens; or it is told why it has
// to load a snapshot (ES-7.3). Typing is said at most once and never waits for anybody.
//
// Order. What an event changes about permissions and places is applied before the next event is looked at
// (ES-8.1): access.changed rebuilds its principal's snapshot from the database, unless a newer one is there
// already. A snapshot may be ahead of the log, never behind it.
//
// Redaction. The newest events are remembered as they were sent. A deletion that passes takes the content out of
// them, so that nobody who comes later is sent what the log does not hold any more.
//
// Blocking and concurrency. A Gateway is safe for concurrent use. Begin, Deliver and Lost are called by one
// eventlog.Tail; Deliver waits for the database only where a principal connected here has new permissions, and for
// nobody's socket. Each connection has the goroutine of its stream, and one more while it catches up. Stop
// waits for all of them. Everything that is remembered has a bound: of the log the newest events by number
// and bytes, of a connection what waits for it (sync.outbound_queue_max, past which it is cut with 4014).
package gateway
