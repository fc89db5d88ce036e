package attach

import "context"

// drive starts the agent of this process, tells what it says, and how it ended.
//
// The agent's context outlives the screen's: leaving stops the agent in order, and only then ends its context. While it
// starts, leaving ends both.
func (r *runner) drive(force bool) {
	ctx, release := context.WithCancel(context.WithoutCancel(r.ctx))
	started := context.AfterFunc(r.ctx, release)
	driver, err := r.options.Take(ctx, force)
	started()
	if err != nil {
		release()
		r.send(takenMsg{err})
		return
	}
	if !r.keep(driver, release) {
		err := r.stop(driver) // the screen is gone
		release()
		r.ended(err)
		return
	}
	r.send(takenMsg{})
	if r.watch(driver) {
		release()
		r.ended(driver.Err())
		r.send(driverEndMsg{driver.Err()})
	}
}

// keep remembers the agent, so that leaving stops it. It answers false when the person left already.
func (r *runner) keep(driver Driver, release context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return false
	}
	r.driver, r.release, r.driverErr = driver, release, nil
	return true
}

// ended remembers how the agent ended.
func (r *runner) ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.driver, r.driverErr = nil, err
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

// stop ends an agent and answers how it ended.
func (r *runner) stop(driver Driver) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaveTimeout)
	defer cancel()
	err := driver.Stop(ctx)
	select {
	case <-driver.Done():
		return driver.Err()
	default:
		return err
	}
}
