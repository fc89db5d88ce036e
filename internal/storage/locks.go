package storage

// The locks of the rows that more than one package writes. A write declares every row of these
// classes that it changes; the batch takes them in the order of the ranks. The lock is the one an
// UPDATE takes (NO KEY UPDATE): writers exclude each other, while a row that merely refers to a
// locked one can still be inserted, so foreign keys cannot deadlock against the order of the ranks.
var (
	// LockUsers is a person, with the keys that person owns.
	LockUsers = &Lock{Rank: 20, Query: "SELECT id FROM users WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockDevices is a device.
	LockDevices = &Lock{Rank: 25, Query: "SELECT id FROM devices WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockOrgs is an organisation with its members.
	LockOrgs = &Lock{Rank: 30, Query: "SELECT id FROM orgs WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockSessions is a session with its log, controls, lease and shares.
	LockSessions = &Lock{Rank: 50, Query: "SELECT id FROM sessions WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
)
