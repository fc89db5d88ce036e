// Package protocol is the gateway's protocol as pure functions (ES-6): it decodes what clients send, strictly,
// and steps one connection from state to state.
//
// Contract. Decode takes one text frame and answers the op it holds, or the close code it earns. Step takes a
// state and something that happened, and answers the next state and what is to be done about it. Neither
// reads a clock, waits or fails; what they are given is never changed.
//
// Concurrency. There is no shared state.
package protocol
