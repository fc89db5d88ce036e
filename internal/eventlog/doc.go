// Package eventlog is the one log of the Workspace surface: what happened, in commit order (ES-2, ES-3).
//
// Contract. Emit hands an event to the transaction that changes what the event tells of; its number is
// taken as the transaction's last step, with the permission version of that moment. Both are durable or
// neither is. A type that is not in the Catalogue, a payload that is not of the type's shape or larger than
// the limit is refused by Emit, so that the last step cannot fail for one writer and hit all.
//
// Order. Numbers begin at 1, follow the commits and have no gap: who sees a number sees every smaller one
// that was not removed by retention. Times order nothing.
//
// Blocking and concurrency. Functions that take a storage.Tx run inside the caller's transaction. A Tail is
// one goroutine that reads the log once for its process; its subscribers are called in line, in order, and
// must not block.
package eventlog
