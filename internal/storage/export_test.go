package storage

// MaxWaiting is the bound of a lane's queue.
const MaxWaiting = maxWaiting

// Waiting is how many writes wait for the first lane.
func Waiting(db DB) int { return len(db.(*database).lanes[0].queue) }

// WALPages reports the bound of the write-ahead log, in pages.
const RestartPages = restartPages
