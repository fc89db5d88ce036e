package attach

import "context"

// drive starts the agent of this process, tells what it says, and how it ended.
func (r *runner) drive(force bool) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	driver, err := r.options.Take(ctx, force)
	if err != nil {
		r.send(takenMsg{err})
		return
	}
	if !r.keep(driver) {
		stop, done := context.WithTimeout(context.WithoutCancel(r.ctx), leaveTimeout)
		defer done()
		_ = driver.Stop(stop) // the screen is gone: nobody is left to tell
		return
	}
	r.send(takenMsg{})
	if r.watch(driver) {
		r.mu.Lock()
		r.driver = nil
		r.mu.Unlock()
		r.send(driverEndMsg{driver.Err()})
	}
}

// keep remembers the agent, so that leaving stops it. It answers false when the person left already.
func (r *runner) keep(driver Driver) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return false
	}
	r.driver = driver
	return true
}

// watch shows what an agent says, and answers whether it ended before the screen did.
func (r *runner) watch(driver Driver) bool {
	notices := driver.Notice()
	for {
		select {
		case text, open := <-notices:
			if !open {
				notices = nil
				continue
			}
			r.send(driverNoticeMsg{text})
		case <-driver.Done():
			return true
		case <-r.ctx.Done():
			return false
		}
	}
}
