package storage

// The locks of the rows that more than one package writes. A write declares every row of these
// classes that it changes; the batch takes them in the order of the ranks. The lock is the one an
// UPDATE takes (NO KEY UPDATE): writers exclude each other, while a row that merely refers to a
// locked one can still be inserted, so foreign keys cannot deadlock against the order of the ranks.
var (
	// LockPermissions is the permission version: who holds it changes permissions, alone (WS-AZ-6). Within
	// it a change locks the principals it touches, so that no write authorised before it commits after it.
	LockPermissions = &Lock{
		Rank: 10, Alone: true,
		Query: "SELECT name FROM sequence_counters WHERE name = ANY($1) ORDER BY name FOR NO KEY UPDATE",
	}
	// LockUsers is a person, with the keys, sign-ins and personal data of that person.
	LockUsers = &Lock{Rank: 20, Query: "SELECT id FROM users WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockDevices is a device.
	LockDevices = &Lock{Rank: 25, Query: "SELECT id FROM devices WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockPrincipals keeps the permissions of a principal as they are until the write is committed. It is
	// shared: writes of one principal do not wait for each other, only for changes of its permissions.
	LockPrincipals = &Lock{Rank: 28, Shared: true, Query: "SELECT id FROM principals WHERE id = ANY($1) ORDER BY id FOR SHARE"}
	// LockOrgs is an organisation with its members.
	LockOrgs = &Lock{Rank: 30, Query: "SELECT id FROM orgs WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockSpaces is a space.
	LockSpaces = &Lock{Rank: 32, Query: "SELECT id FROM spaces WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockChannels is a channel with its settings.
	LockChannels = &Lock{Rank: 35, Query: "SELECT id FROM channels WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockImports is an import. Its batches are large and commit alone.
	LockImports = &Lock{
		Rank: 40, Alone: true,
		Query: "SELECT id FROM imports WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE",
	}
	// LockThreads is a thread with its messages and pins (ES-4).
	LockThreads = &Lock{Rank: 45, Query: "SELECT id FROM threads WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockSessions is a session with its log, controls, lease and shares.
	LockSessions = &Lock{Rank: 50, Query: "SELECT id FROM sessions WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockMessages is a message with its reactions. Who changes the message itself locks its thread.
	LockMessages = &Lock{Rank: 55, Query: "SELECT id FROM messages WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockFiles is an uploaded file.
	LockFiles = &Lock{Rank: 60, Query: "SELECT id FROM files WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE"}
	// LockBlobs is the content of files, by its SHA-256.
	LockBlobs = &Lock{Rank: 62, Query: "SELECT sha256 FROM file_blobs WHERE sha256 = ANY($1) ORDER BY sha256 FOR NO KEY UPDATE"}
)

// The ranks of the last steps: the audit chain before the log, in every lane and node.
const (
	RankAudit  = 10
	RankEvents = 20
)

// ChangePermissions is the key of every write that changes permissions.
var ChangePermissions = Key{Lock: LockPermissions, ID: "permission_version"}
