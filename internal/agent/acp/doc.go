// Package acp runs one agent that speaks the Agent Client Protocol (ACP, version 1) on its stdin and stdout.
//
// Start spawns the program in a process group of its own and introduces itself; Open makes a session or takes
// up an earlier one; Prompt is one turn. What the agent does meanwhile is told to a Handler.
//
// Order and back-pressure: one goroutine reads the agent's lines. A session/update goes to Handler.Update at
// once and nothing more is read until that returns, so an answer to Prompt comes after all updates before it,
// and a slow handler slows the agent instead of filling memory. Requests of the agent are served beside each
// other, at most 128 at a time and 64 MiB of them; at that bound nothing more is read until one is answered.
//
// What is not the protocol ends the agent: a line over 10 MiB, a line that is no JSON-RPC object, an update of
// a known kind in another shape (GarbageError). Up to 50 lines of greeting before the first answer go to
// Options.Stderr instead, because many programs cannot help it.
//
// Files are served inside Options.Root only, on os.Root: neither "..", nor a symbolic link, nor a link that is
// swapped in meanwhile leads out. Terminals start inside Root; what a command then does is bounded by the user's
// own rights and nothing else.
//
// An Agent is safe for concurrent use. It owns goroutines and processes until Stop returns, which must be called.
package acp
