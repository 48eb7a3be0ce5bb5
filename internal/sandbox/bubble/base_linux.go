package bubble

import (
	"context"
	"sync"
	"time"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
)

// base is what a workspace had before the first of the runs that are under way in
// it together. All are swept by it: what one of them made is not there before the
// next, whenever that began to look.
type base struct {
	runs int // guarded by Backend.mu

	mu       sync.Mutex
	snapshot *seal.Snapshot
}

// join makes a run one of those under way in a place; s is what it found there.
func (b *Backend) join(place string, s *seal.Snapshot) *base {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bases[place] == nil {
		b.bases[place] = &base{snapshot: s}
	}
	b.bases[place].runs++
	return b.bases[place]
}

func (b *Backend) leave(place string, of *base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of.runs--; of.runs == 0 {
		delete(b.bases, place)
	}
}

// sweepWithin is far more than a sweep of the largest workspace takes.
const sweepWithin = 10 * time.Minute

func (s *base) sweep(quarantine string, call palyra.ID) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sweepWithin)
	defer cancel()
	return s.snapshot.Sweep(ctx, quarantine, call)
}

// finish is called when nothing of the run is left: what it made of sealed paths
// is taken away. A record whose sweep failed stays, for Recover to try again.
func (k *keeper) finish(x *sandbox.Exit, ran bool) error {
	if !ran || k.base == nil {
		k.forget()
		return nil
	}
	made, err := k.base.sweep(k.b.config.Quarantine, k.call)
	x.Quarantined = k.b.told(k.want.room.workspace, k.call, made)
	if err != nil {
		k.b.leave(k.want.place, k.base)
		k.base = nil
		k.b.keep(k.record)
		k.record = nil
		return unswept(k.want.room.workspace, err)
	}
	k.forget()
	return nil
}

// told sorts the results of a sweep: what was made is the caller's to know, what
// somebody else changed meanwhile the operator's.
func (b *Backend) told(workspace string, call palyra.ID, results []string) (made []string) {
	for _, r := range results {
		if path, changed := seal.Changed(r); changed {
			b.fleet.Log.Warn("a sealed path was changed from outside while a run was under way", "workspace", workspace, "path", path, "call", call)
		} else {
			made = append(made, r)
		}
	}
	if len(made) > 0 {
		b.fleet.Log.Warn("a run made sealed paths; they are in quarantine", "workspace", workspace, "call", call, "paths", made)
	}
	return made
}

func unswept(workspace string, err error) error {
	if e := palyra.AsError(err); e.Reason == palyra.ReasonSealDenied {
		return e
	}
	return palyra.Errorf(palyra.Internal, palyra.ReasonSealDenied, "whether the run made sealed paths in %q is not known", workspace).
		WithRemedy("do not use git, editors or CI there before you have looked; restarting the daemon searches again").WithCause(err)
}
