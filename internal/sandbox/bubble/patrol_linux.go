package bubble

import (
	"slices"
	"time"

	"palyra/internal/sandbox"
)

// A room that lives for hours is looked through while it does: what an agent or a
// server makes of sealed paths would otherwise be there for the person's editor and
// shell all day. It is the sweep that other runs' ends would bring. A short run is
// not patrolled: what it makes and removes again, in tests of its own, is nobody's
// business.

const (
	patrolEvery = 10 * time.Second
	// patrolShare is how many times longer than a look takes the next one waits: the
	// machine is the run's.
	patrolShare = 20
	mostPatrols = 1_000 // results that are kept; the quarantine's index has them all
)

// patrol sweeps while the run is under way.
type patrol struct {
	stop, done chan struct{}
	made       []string // only read when done is closed
	failed     bool
}

// watch begins to sweep, for a job that lives.
func (k *keeper) watch(j sandbox.Job) {
	if !j.Lives || k.base == nil || k.stage != nil {
		return
	}
	k.patrol = &patrol{stop: make(chan struct{}), done: make(chan struct{})}
	every := k.b.config.Patrol
	if every <= 0 {
		every = patrolEvery
	}
	go k.walk(k.patrol, every)
}

func (k *keeper) walk(p *patrol, every time.Duration) {
	defer close(p.done)
	wait := every
	for {
		select {
		case <-p.stop:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		made, err := k.b.sweep(k.base, k.call)
		k.b.told(k.want.room.Workspace, k.call, made)
		for _, m := range made {
			if len(p.made) < mostPatrols && !slices.Contains(p.made, m) {
				p.made = append(p.made, m)
			}
		}
		if err != nil && !p.failed { // the sweep at the end says what it means
			p.failed = true
			k.b.fleet.Log.Warn("a room cannot be looked through while it lives", "workspace", k.want.room.Workspace, "call", k.call, "err", err)
		}
		wait = max(every, patrolShare*time.Since(began))
	}
}

// unwatch ends the sweeping and returns what it found.
func (k *keeper) unwatch() []string {
	if k.patrol == nil {
		return nil
	}
	close(k.patrol.stop)
	<-k.patrol.done
	made := k.patrol.made
	k.patrol = nil
	return made
}
