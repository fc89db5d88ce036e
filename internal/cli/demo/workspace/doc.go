// Package workspace is the demonstration of the Workspace: a team of five people on seven devices, from the import of
// what they said elsewhere to a restore of the server, and at the end the proof that every device's copy is what the
// server says.
//
// Contract. Run needs nothing but the program it is part of: it starts a server as a process of its own on a temporary
// database, or on the one it is given, and ends it. The devices are clients of the SDK, each with an encrypted store and
// a network connection of its own. Whatever a device received too much, too little, twice or without permission, and
// every field in which its copy differs from a fresh answer of the server, is an error.
//
// Concurrency. Run works alone. It owns the goroutines of its devices and waits for them, and for its processes.
package workspace
