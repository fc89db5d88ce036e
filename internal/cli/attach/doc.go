// Package attach is the terminal viewer of a session: it shows what happens, and sends what a person wants.
//
// Contract. Run shows one session on a terminal until the person leaves, the context ends or the output fails. The
// screen is a model that takes messages and answers effects; it touches nothing else, so that it is tested as a table.
// Effects (requests, the stream, timers, the agent of this process) are carried out around it, each with a time limit,
// and come back as messages. Every text that came from elsewhere is made fit to print first (internal/cli/render): no
// event can move the cursor or change a colour.
//
// Order. The log is shown in its order, each event once, across lost connections and a restored server. What a person
// sends keeps one id however often it is tried (SS-CON-2), and stays listed until its outcome is known.
//
// Bounds. A window of the log is held, at most maxEvents events and maxBytes of payload; older and newer parts are read
// when they are scrolled to. What is open (asks, todos, the turn) is kept apart from the window. Unsent wishes,
// names, notices and asks have limits of their own, next to where they are kept.
//
// Blocking and concurrency. The model never waits. Run returns after everything it started has ended, but for the reader of
// keys, which bubbletea leaves behind when something is typed in the moment of leaving.
package attach
