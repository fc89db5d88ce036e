package run

// CloseJournal makes every further write to the journal fail, as on a full disk.
func (r *Runner) CloseJournal() error { return r.journal.Close() }
