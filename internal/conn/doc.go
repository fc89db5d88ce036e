// Package conn is the last yard to a client: WebSocket (RFC 6455) and server-sent events over one
// bounded outbound queue and one writer.
//
// Contract. A Block is one or more frames, encoded once per transport however many receivers it has.
// A Stream takes blocks with Send and SendLatest and delivers them completely and in order, or is
// cut: nothing is skipped except a SendLatest block that a newer one of the same key overtook while
// it waited. A Keeper opens streams, pings them, ends them at their age, and ends them all in Stop.
//
// Blocking. Send, SendLatest and Close never wait for the client: when nothing waits they try one
// non-blocking write, the rest is queued and written by a goroutine that lives only while something
// waits. Waiting blocks go out together in one system call. Room waits for a queue to drain. On
// connections that are no plain TCP sockets (TLS) every write is made by that goroutine.
//
// Bounds. The queue holds at most QueueFrames and, its largest block not counted, QueueBytes, so that
// a single frame is admitted however large and does not cut those behind it; past the bound the
// stream is cut (WebSocket 1013, SSE ends; SS-STR-7). An inbound message has at most MaxMessage
// bytes; all unfinished ones together at most InboundBytes. Of unanswered pings the latest is
// answered. Streams are at most MaxStreams. A stream whose socket takes nothing for WriteTimeout, or
// whose close handshake takes longer than CloseWithin, loses its connection.
//
// Concurrency. Every method is safe for concurrent use. An idle stream has one goroutine (blocked in
// a read) and no buffer. Handler.Message is called by one goroutine at a time; Handler.Closed once,
// after the last Message.
package conn
