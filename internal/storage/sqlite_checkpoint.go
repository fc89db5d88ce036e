package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Pages of 4 KiB in the write-ahead log.
const (
	// checkpointPages of new log make the checkpointer copy them into the file, beside the writer.
	checkpointPages = 2000
	// restartPages make the writer itself start the log anew: 32 MiB, of which little is left to copy.
	restartPages = 8000
	// restartPatience bounds how long the writer waits there for readers of the old log.
	restartPatience = 50 * time.Millisecond
)

// checkpointer keeps the write-ahead log short without holding up the writer.
type checkpointer struct {
	conn  *sqliteConn
	log   *slog.Logger
	grown chan struct{} // holds one
	ended chan struct{}
	done  int // pages of the log at the last request; belongs to the writer
}

func newCheckpointer(ctx context.Context, path string, log *slog.Logger) (*checkpointer, error) {
	conn, err := openConn(ctx, path, false)
	if err != nil {
		return nil, err
	}
	c := &checkpointer{conn: conn, log: log, grown: make(chan struct{}, 1), ended: make(chan struct{})}
	go c.run()
	return c, nil
}

// wrote is told the length of the log after each batch. It never blocks.
func (c *checkpointer) wrote(pages int) {
	if pages < c.done {
		c.done = 0 // the log began anew
	}
	if pages-c.done < checkpointPages {
		return
	}
	c.done = pages
	select {
	case c.grown <- struct{}{}:
	default: // one is due already
	}
}

func (c *checkpointer) run() {
	defer close(c.ended)
	for range c.grown {
		if _, _, err := c.conn.conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE); err != nil && !errors.Is(err, sqlite3.BUSY) {
			c.log.Warn("checkpoint the write-ahead log", "error", err)
		}
	}
}

// close ends the goroutine, empties the log and closes the connection.
func (c *checkpointer) close() error {
	close(c.grown)
	<-c.ended
	_, _, err := c.conn.conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	c.conn.close()
	if err != nil && !errors.Is(err, sqlite3.BUSY) { // another process does it, or will
		return fmt.Errorf("checkpoint the write-ahead log: %w", err)
	}
	return nil
}
