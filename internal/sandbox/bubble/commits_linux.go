package bubble

import (
	"context"
	"sync"
	"time"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/seal/committed"
)

// Before a run its workspace's repositories are read, and again when it has ended and been swept:
// sealed names that came into index and commits are reported. A daemon that dies in between has
// lost the former state, and reports none.

// commits remembers the state of repositories, so that an unchanged index is not read again.
type commits struct {
	mu   sync.Mutex
	last map[string]*committed.State // by place

	turn sync.Mutex // one comparison at a time: it takes memory
}

const (
	mostCommits = 64
	gitWithin   = 30 * time.Second // for a comparison
	gitFirst    = 5 * time.Second  // for the look before a run, which waits for it
)

func (c *commits) get(place string) *committed.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[place]
}

func (c *commits) put(place string, s *committed.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || len(c.last) >= mostCommits {
		c.last = map[string]*committed.State{}
	}
	c.last[place] = s
}

// watchCommits looks at the repositories before the run.
func (k *keeper) watchCommits() error {
	dirs := k.snapshot.Repositories()
	if len(dirs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitFirst)
	defer cancel()
	w, err := committed.Begin(ctx, k.want.room.Workspace, k.want.seals, dirs, k.b.commits.get(k.want.place))
	k.commits = w
	return err
}

// committed adds the names that came into the repositories to the exit.
func (k *keeper) committed(x *sandbox.Exit) {
	if k.commits == nil {
		return
	}
	k.b.commits.turn.Lock()
	defer k.b.commits.turn.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), gitWithin)
	defer cancel()
	found, state := k.commits.End(ctx)
	k.b.commits.put(k.want.place, state)
	for i, p := range found.Paths {
		r := palyra.Remnant{Kind: palyra.RemnantCommitted, Path: p}
		if i == len(found.Paths)-1 {
			r.More = found.More
		}
		x.Remnants = append(x.Remnants, r)
	}
	for _, dir := range found.Unread {
		x.Remnants = append(x.Remnants, palyra.Remnant{Kind: palyra.RemnantUnread, Path: dir})
	}
	if n := int64(len(found.Paths)) + found.More; n > 0 {
		k.b.fleet.Log.Warn("sealed names came into git's index or commits during a run", "workspace", k.want.room.Workspace, "call", k.call,
			"count", n,
			"first", palyra.Clip(string(palyra.TextOfPath(found.Paths[0])), 256))
	}
}
