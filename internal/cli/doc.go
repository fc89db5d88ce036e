// Package cli is the command line of cairn.
//
// Contract. Run carries out one command and answers its exit code: 0 done, 1 refused or failed, 2 wrong
// usage. What a command was asked for goes to standard output, everything else to standard error. With
// --json standard output is JSON and nothing else, and so is what standard error says of a failure. A refusal is
// said in one or a few lines, with what to do about it; no key is ever printed, except the new one that `user add`,
// `key add` and a link share show once.
// Text that came from other people is printed without control characters.
//
// Order. A control has one id per invocation, also when it is sent again because its answer was lost, so one
// intention stays one control (SS-CON-2).
//
// Blocking and concurrency. Run blocks until the command is done or its context ends; it owns no goroutine
// that outlives it. Two runs at the same time, in one process or in several, agree on one device id.
package cli
