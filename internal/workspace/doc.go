// Package workspace is the domain of the Workspace surface: spaces, channels, threads, messages with their
// revisions, reactions and pins (workspace specification, sections 1 to 5; ES-4, ES-5.1, ES-13.3).
//
// Contract. An operation authorises with rows of its own transaction, decides, writes, and emits what
// happened; all of it is durable or nothing is. Refusals are fault.Errors in the order of WS-AZ-5: 404, 403,
// a repeat, 428, 410, 412, other conflicts. A repeated message or thread (client_msg_id) and a repeated write
// with an Idempotency-Key answer what there is and emit nothing. Any other error is a failure of the database.
//
// Order. Messages of a thread are numbered without gaps under the lock of the thread (ES-4). Who changes a
// message or its pins locks the thread and the message, who reacts to it locks the message, so that each event
// carries the state that its place in the log has.
//
// What the specifications leave open is decided here: a thread that moves to a forum becomes a post, and a
// post that moves to a text channel a thread; the main timeline of a channel has no title, is never done and
// does not move; a post keeps a title; a message has reactions with at most MaxEmoji different emoji; a list
// of revisions begins with the oldest. A payload over the limit of events carries the beginning of the
// content; if that is not enough, no attachments, reactions and components, and last no mentions.
//
// Blocking and concurrency. A Service is safe for concurrent use and owns no goroutine; operations wait for
// the database only. Functions that take a storage.Tx run inside the caller's transaction.
package workspace
