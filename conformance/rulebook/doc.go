// Package rulebook runs the cases of a black-box conformance suite and reports on its rules, one line each.
//
// A Case is one promise of one rule. Cases run concurrently, each as a [Trial] in a goroutine of its own,
// which testify's require may end; they never sleep: they wait for a condition, at most until the deadline
// of their trial. A [Report] may be read and written concurrently.
package rulebook
