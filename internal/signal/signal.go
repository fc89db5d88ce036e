// Package signal carries wake-ups between writers and readers: in process at once, and across the
// processes that share a database.
//
// A wake-up says that something may have changed, never what: a topic and an id, no content. It may
// be lost or doubled; readers therefore also poll (at most PollInterval apart), and a lost wake-up
// costs at most that time, never an event. Publish never blocks and coalesces; subscribers are
// called in line and must not block.
package signal

import "time"

// PollInterval is how long a lost wake-up may go unnoticed.
const PollInterval = time.Second

// Topic is a kind of thing that may have changed.
type Topic string

// The topics. The id of Session and Presence is the session's, of Inbox the device's; Identity has none. Those of
// the Workspace surface: the id of Gateway is a device's, of Typing a thread's and a principal's with a dash between
// them; Events has none.
const (
	Session  Topic = "s" // log, lease, controls or access of a session
	Presence Topic = "p" // who has a session open
	Inbox    Topic = "i" // controls waiting for a device
	Identity Topic = "u" // users, keys or devices
	Push     Topic = "o" // the push outbox
	Events   Topic = "e" // the event log has grown
	Gateway  Topic = "g" // a device has a newer gateway session
	Typing   Topic = "t" // somebody types
)

// Wake is one wake-up. An empty ID means anything of the topic may have changed (a reconnect, or
// another process wrote to the SQLite file); an empty Topic means anything at all.
type Wake struct {
	Topic Topic
	ID    string
}

// Bus carries wake-ups.
type Bus interface {
	// Publish tells every subscriber, here and in other processes. Call it after the commit.
	Publish(wakes ...Wake)
	// PublishAway tells subscribers in other processes only, of what this one has handed over already.
	PublishAway(wakes ...Wake)
	// Subscribe calls on for every wake-up until cancel is called.
	Subscribe(on func(Wake)) (cancel func())
}
