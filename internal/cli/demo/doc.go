// Package demo is `cairn demo`: one agent session on many devices, played for real in front of the user.
//
// Contract. Run starts a server, makes three people and a session, and lets the parts act: two executors, two viewers and
// an editor, each a process of its own on a device of its own, which it starts from this same program (Play). It shows
// what happens, and in the end compares what every follower received with the server's log. It answers nil only when all
// logs are equal, without gaps and duplicates, every line of the recording is in the log exactly once, and everything
// that was to happen did. Whatever happens, all processes it started have ended when it returns, and the temporary folder
// is gone. A part ends by itself when its standard input does, so it does not outlive a Run that was killed.
//
// Secrets. Keys and the link's token go to parts by their environment, never by arguments, and are not shown.
//
// Order. A part's reports arrive in the order it made them; those of different parts in any.
//
// Blocking and concurrency. Run and Play block until their part is over or their context ends. Run's goroutines, one or two
// per process, end before it returns. Play's goroutine that reads standard input ends with the process.
package demo
