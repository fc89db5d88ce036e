// Package run makes an agent the executor of a shared session: what people ask becomes its prompts, what it does becomes the
// session's events, and what it asks is answered by whoever steers.
//
// Contract. Start takes the session's folder on this machine for itself, starts the agent, claims the lease, closes what a dead
// executor left open, and works until Stop, until it has lingered, or until the lease is lost; then the agent is ended. Serve
// does that for every session that is dispatched to this device. machine decides everything: it is a pure state machine, and
// the Runner around it carries its effects out.
//
// Order. One loop takes one thing after the other: an update of the agent, a control, a question, the end of a prompt. Events
// are stored in the order in which the loop said them. A prompt is given to the agent after its turn_start is stored, and a
// control is marked applied after what came of it is stored, so that a crash between any two steps never runs a prompt twice and
// never loses one silently: one that had begun ends as failed (SS-CON-3).
//
// Blocking. While the executor's queue is full the loop waits, and with it the agent. A pause holds the agent's updates and
// requests. Nothing else waits for the network.
//
// Concurrency. A Runner is safe for concurrent use. Its goroutines, the agent's process and the lease have ended when Done is
// closed.
package run
