// Package conformity holds one test: our own server passes the conformance suite that we offer to
// others, on both engines. It stands alone so that it runs beside nothing else: the suite measures
// times, and a race detector or a busy neighbour would be measured with them.
package conformity
