package bubble

import (
	"slices"
	"time"

	"palyra/internal/sandbox"
)

// A long-lived room is swept while it runs: sealed paths that an agent or a server makes would otherwise be
// there for the person's editor and shell all day. It is the same sweep that the ends of other runs bring. A
// short run is not patrolled: it may make and remove such paths, for example in tests.

const (
	patrolEvery = 10 * time.Second
	// patrolShare is how many times the duration of a look the next one waits: the machine is for the run.
	patrolShare = 20
	mostPatrols = 1_000 // results that are kept; the quarantine's index has all
)

// patrol sweeps while the run is under way.
type patrol struct {
	stop, done chan struct{}
	made       []string // only read after done is closed
	failed     bool
}

// watch starts the sweeping, for a long-lived job.
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
		if err != nil && !p.failed { // the sweep at the end reports it
			p.failed = true
			k.b.fleet.Log.Warn("a room cannot be looked through while it lives", "workspace", k.want.room.Workspace, "call", k.call, "err", err)
		}
		wait = max(every, patrolShare*time.Since(began))
	}
}

// unwatch ends the sweeping and returns its results.
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
