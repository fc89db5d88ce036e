// Package authz decides who may do what on the Workspace surface (WS-AZ-1…7, ES-8).
//
// Contract. One function decides: Authorize, with an action from one table. What a principal may not see is
// not_found, what it sees but may not change is forbidden (WS-AZ-5). A Snapshot is what a principal was
// granted at one permission version; on the write path it is loaded in the write's own transaction after
// the principal's lock, so that no write commits after the revocation that forbids it; a delivery uses the
// snapshot that follows the log.
//
// Order. A permission change is one transaction, never grouped with others: the permission version is locked
// first, then the principals it touches, then it changes rows, and writes one access.changed for each
// principal whose visible targets or levels differ (WS-AZ-6).
//
// Blocking and concurrency. A Snapshot is never changed and may be read by any number of goroutines.
// Functions that take a storage.Tx run inside the caller's transaction; the others may wait for the database.
package authz
