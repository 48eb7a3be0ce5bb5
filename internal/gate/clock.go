package gate

import (
	"context"
	"sync"
	"time"
)

// clock is the context of a run. It ends like one with a timeout, but for the
// time in which the run waits for a person's answer: that is not the run's.
type clock struct {
	context.Context // the caller's
	done            chan struct{}

	mu      sync.Mutex // guards the fields below; a leaf lock
	err     error
	left    time.Duration // of the run's own time, as of since
	spare   time.Duration // that the clock may yet stand still, as of since
	since   time.Time
	waiting int // answers that are awaited
	timer   *time.Timer
}

// mostWaiting bounds how long the clock of one run stands still in all: a program
// that asks again and again does not live for ever.
const mostWaiting = 30 * time.Minute

// startClock returns the context of a run that has wall, and what ends it.
func startClock(ctx context.Context, wall time.Duration) (*clock, func()) {
	c := &clock{Context: ctx, done: make(chan struct{}), left: wall, spare: mostWaiting, since: time.Now()}
	c.mu.Lock() // the timer may ring before it is known
	c.timer = time.AfterFunc(wall, c.ring)
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { c.end(ctx.Err()) })
	return c, func() {
		stop()
		c.end(context.Canceled)
	}
}

// pause stops the clock until resume is called, which may be done more than once.
func (c *clock) pause() (resume func()) {
	c.wait(1)
	return sync.OnceFunc(func() { c.wait(-1) })
}

// wait counts an answer that is awaited, or one that has come, and sets the timer to what comes next.
func (c *clock) wait(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pass()
	c.waiting += n
	if c.err == nil {
		c.timer.Reset(c.next())
	}
}

// pass books the time since the last look.
func (c *clock) pass() {
	now := time.Now()
	gone := now.Sub(c.since)
	c.since = now
	if c.waiting > 0 {
		still := min(gone, c.spare)
		c.spare -= still
		gone -= still
	}
	c.left -= gone
}

// next is how long it is until something must be looked at.
func (c *clock) next() time.Duration {
	if c.waiting > 0 && c.spare > 0 {
		return c.spare
	}
	return max(c.left, 0)
}

// ring looks whether the run's time is up.
func (c *clock) ring() {
	c.mu.Lock()
	c.pass()
	up := c.left <= 0
	if !up && c.err == nil {
		c.timer.Reset(c.next())
	}
	c.mu.Unlock()
	if up {
		c.end(context.DeadlineExceeded)
	}
}

// end ends the run's context; only the first reason counts.
func (c *clock) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.timer.Stop()
		close(c.done)
	}
}

// Deadline implements context.Context: the latest that the run can end, so that
// nobody who derives a shorter time from it gets less than that.
func (c *clock) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := c.since.Add(c.left + c.spare)
	if d, ok := c.Context.Deadline(); ok && d.Before(latest) {
		return d, true
	}
	return latest, true
}

// Done implements context.Context.
func (c *clock) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *clock) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
