// Package house holds the tests that keep the house in order; it has no code of its own.
//
// Contract. The tests read the source of the whole module: imports point down the layers, the domains
// never see HTTP, sockets or a driver, wire and client know nothing internal, every package says what it
// promises, and files and functions stay small. A package that is new must be put into the table of layers.
//
// Order, blocking and concurrency. The tests run in parallel, need the go command, and change nothing.
package house
