// Package workspace holds the public objects of the Workspace surface (under /api/v1): the objects of
// the chat, the event envelope, what events carry, the frames of the gateway and the bodies of requests.
//
// Types only, no behaviour. There is no JSON null on this surface: a missing member means "no value"
// (ADR 0053 of the protocol), so every optional member is omitted when empty. Ids are UUIDs, the ones
// the server makes of version 7; times are RFC 3339 in UTC. The struct tags beside `json` state what the
// server allows; its OpenAPI document is made of them.
package workspace
