package bubble

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// base is what a workspace had before the first of the runs that are under way in
// it together. All are swept by it: what one of them made is not there before the
// next, whenever that began to look. Bases of trees of which one contains the
// other agree on what they both seal.
//
// A base without runs is a note about a workspace: that somebody's runs there
// ended a moment ago, or that a record is owed a sweep, before which nothing may
// run there.
type base struct {
	workspace string

	sweeping sync.Mutex // one at a time

	// The rest is guarded by Backend.mu.
	runs     int
	left     time.Time      // when the last run ended
	owed     string         // path of a record that is to be swept
	snapshot *seal.Snapshot // replaced, never changed
	strange  []string       // absolute paths that others took away since: not known any more
}

// leftFor is how long it is remembered that a run ended; a look at a workspace
// that is older is repeated anyway.
const leftFor = time.Minute

// Keys of notes. Those of bases are JSON.
const (
	keyLeft = "left "
	keyOwed = "owed "
)

// now is what is known by a base. The caller has Backend.mu.
func (s *base) now() *seal.Snapshot {
	known := *s.snapshot
	known.Forget(s.strange)
	return &known
}

// join makes a run one of those under way in a place; s is what it found there.
// again: runs ended while it looked, and it has to look once more.
func (b *Backend) join(w *want, s *seal.Snapshot) (of *base, again bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	near, again, err := b.near(w.room.Workspace, s.Began())
	if err != nil {
		return nil, false, err
	}
	if of = b.bases[w.place]; of != nil { // what it knows is older than anything that runs there
		of.runs++
		return of, false, nil
	}
	mine := *s
	for _, o := range near {
		if err := mine.Share(o.now()); err != nil {
			return nil, false, err
		}
	}
	if err := mine.Hold(); err != nil {
		return nil, false, err
	}
	of = &base{workspace: w.room.Workspace, runs: 1, snapshot: &mine}
	b.bases[w.place] = of
	return of, again, nil
}

// near are the bases of runs under way in trees that overlap a workspace. left:
// such runs ended since a moment. The caller has Backend.mu.
func (b *Backend) near(workspace string, since time.Time) (near []*base, left bool, err error) {
	now := time.Now()
	left = now.Sub(since) >= leftFor
	for key, o := range b.bases {
		switch {
		case o.runs == 0 && o.owed == "" && now.Sub(o.left) >= leftFor:
			delete(b.bases, key)
		case !subpath.Touch(o.workspace, workspace):
		case o.owed != "":
			return nil, false, errOwed
		case o.runs == 0:
			left = left || !o.left.Before(since)
		default:
			near = append(near, o)
		}
	}
	return near, left, nil
}

// errOwed: a record has come to be owed a sweep in the workspace.
var errOwed = errors.New("bubble: an earlier run is not swept")

func (b *Backend) leave(place string, of *base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of.runs--; of.runs > 0 {
		return
	}
	of.snapshot.Release()
	delete(b.bases, place)
	b.leftNow(of.workspace)
}

// leftNow notes that the runs in a workspace ended. The caller has Backend.mu.
func (b *Backend) leftNow(workspace string) {
	b.bases[keyLeft+workspace] = &base{workspace: workspace, left: time.Now()}
}

// enlist makes the run one of those in its workspace. What it found there must
// hold from now on: what others made before they ended is taken away by then.
func (k *keeper) enlist() error {
	if err := k.b.settle(k.want.room.Workspace); err != nil {
		return err
	}
	of, again, err := k.b.join(k.want, k.snapshot)
	if err != nil {
		return changed(err)
	}
	k.base = of
	if again && of.stale() {
		return changed(errors.New("bubble: runs in the workspace ended meanwhile"))
	}
	return nil
}

// changed has the room built anew.
func changed(cause error) error {
	return cells.SpawnFailed("the sealed paths of the workspace changed while the room was built").
		WithRemedy("try again when nobody changes them").WithCause(errors.Join(errChanged, cause))
}

// stale reports whether the workspace is another one than the base knows.
func (s *base) stale() bool {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	look := *s.snapshot // nobody replaces it meanwhile
	ctx, cancel := context.WithTimeout(context.Background(), sweepWithin)
	defer cancel()
	stale, err := look.Stale(ctx)
	return stale || err != nil // a scan will say what is wrong
}

// sweepWithin is far more than a sweep of the largest workspace takes.
const sweepWithin = 10 * time.Minute

// sweep takes away what runs made that the base does not know.
func (b *Backend) sweep(of *base, call palyra.CallID) ([]string, error) {
	of.sweeping.Lock()
	defer of.sweeping.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sweepWithin)
	defer cancel()
	b.mu.Lock()
	known, strange := of.now(), len(of.strange)
	b.mu.Unlock()
	made, err := known.Sweep(ctx, b.config.Quarantine, call)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.estrange(of, known)
	if err == nil {
		of.snapshot, of.strange = known, of.strange[strange:]
	}
	return made, err
}

// estrange has the other bases forget what a sweep took away: whoever makes it
// again makes it anew. The caller has Backend.mu.
func (b *Backend) estrange(but *base, swept *seal.Snapshot) {
	var paths []string
	for _, p := range swept.Moved() {
		paths = append(paths, filepath.Join(swept.Workspace(), p))
	}
	for _, o := range b.bases {
		if o != but && o.runs > 0 && subpath.Touch(o.workspace, swept.Workspace()) {
			o.strange = append(o.strange, paths...)
		}
	}
}

// finish is called when nothing of the run is left: what it made of sealed paths
// is taken away. A record whose sweep failed stays: it is tried again before
// anything else runs in the workspace.
func (k *keeper) finish(x *sandbox.Exit, ran bool) error {
	taken, kept := k.keepStage(x, ran)
	if !ran || k.base == nil {
		k.forget()
		return kept
	}
	workspace := k.want.room.Workspace
	before := k.unwatch()
	made, err := k.b.sweep(k.base, k.call)
	made = slices.Concat(taken, made)
	x.Quarantined, x.Changed, x.More = k.b.told(workspace, k.call, made)
	if len(before) > 0 {
		made = slices.Concat(before, slices.DeleteFunc(made, func(m string) bool { return slices.Contains(before, m) }))
		x.Quarantined, x.Changed, x.More = sorted(made)
	}
	k.committed(x)
	x.Remnants = append(x.Remnants, left(made)...)
	if len(made) > 0 {
		x.Remnants = append(x.Remnants, k.b.trim(k.call)...)
		x.Remnants = append(x.Remnants, k.b.trimIn(k.snapshot, k.call)...)
	}
	if shared, ok := k.snapshot.Shared(); ok {
		x.Remnants = append(x.Remnants, shared)
	}
	if err != nil {
		k.b.keep(k.record, workspace)
		k.record = nil
		err = unswept(workspace, err)
	}
	k.forget()
	if err == nil {
		err = kept
	}
	return err
}

// told sorts the results of a sweep: what was made is the caller's to know, what
// somebody else changed meanwhile the operator's. more were made than are named.
// A run chooses names and how many there are: the log gets the number and the
// first, and the quarantine's index has them all.
func (b *Backend) told(workspace string, call palyra.CallID, results []string) (made, changed []string, more int64) {
	made, changed, more = sorted(results)
	for _, c := range []struct {
		text  string
		paths []string
		more  int64
	}{
		{"sealed paths were changed from outside while a run was under way", changed, 0},
		{"a run made sealed paths; they are in quarantine", made, more},
	} {
		if len(c.paths) > 0 {
			b.fleet.Log.Warn(c.text, "workspace", workspace, "call", call, "count", int64(len(c.paths))+c.more,
				"first", palyra.Clip(string(palyra.TextOfPath(c.paths[0])), 256))
		}
	}
	return made, changed, more
}

func sorted(results []string) (made, changed []string, more int64) {
	for _, r := range results {
		if path, ok := seal.Changed(r); ok {
			changed = append(changed, path)
		} else if n, ok := seal.More(r); ok {
			more += n
		} else if _, ok := seal.Remnant(r); !ok {
			made = append(made, r)
		}
	}
	return made, changed, more
}

// left are the results of a sweep that stay in the workspace.
func left(results []string) (out []palyra.Remnant) {
	for _, r := range results {
		if x, ok := seal.Remnant(r); ok {
			out = append(out, x)
		}
	}
	return out
}

func unswept(workspace string, err error) error {
	if e := palyra.AsError(err); e.Reason == palyra.ReasonSealDenied {
		return e
	}
	return palyra.Errorf(palyra.Internal, palyra.ReasonSealDenied, "whether the run made sealed paths in %q is not known", workspace).
		WithRemedy("do not use git, editors or CI there before you have looked; the next run there searches again").WithCause(err)
}
