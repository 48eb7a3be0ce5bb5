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
	"palyra/internal/sandbox/refusal"
	"palyra/internal/sandbox/template"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// base is the state of a workspace before the first of the runs that are under way in it together. All are swept
// against it, so that a run that began later does not take the first one's work for something that was there
// before. Bases of trees of which one contains the other agree on what they both seal.
//
// A base without runs is a note about a workspace: that runs there ended a moment ago, or that a
// record must be swept before anything may run there.
type base struct {
	workspace string

	sweeping sync.Mutex // one at a time

	// The rest is guarded by Backend.mu.
	runs     int
	calls    map[palyra.CallID]int // whose they are
	left     time.Time             // when the last run ended
	owed     string                // path of a record that must be swept
	snapshot *seal.Snapshot        // replaced, never changed
	strange  []string              // absolute paths that other sweeps removed since, and that count as unknown
}

// leftFor is how long the end of a run is remembered; a look at a workspace that is older is repeated anyway.
const leftFor = time.Minute

// The prefixes of keys of notes. Those of bases begin with a digit.
const (
	keyLeft = "left "
	keyOwed = "owed "
)

// now is the base's present snapshot. The caller has Backend.mu.
func (s *base) now() *seal.Snapshot {
	known := *s.snapshot
	known.Forget(s.strange)
	return &known
}

// join makes a run one of those under way in a place; s is the state that it found there. again:
// runs ended while it looked, and it must look once more.
func (b *Backend) join(ctx context.Context, w *want, s *seal.Snapshot, call palyra.CallID) (of *base, again bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.waitKept(ctx, w.room.Workspace); err != nil {
		return nil, false, err
	}
	near, again, err := b.near(w.room.Workspace, s.Began())
	if err != nil {
		return nil, false, err
	}
	if of = b.bases[w.place]; of != nil { // its snapshot is older than anything that runs there
		of.runs++
		of.calls[call]++
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
	of = &base{workspace: w.room.Workspace, runs: 1, calls: map[palyra.CallID]int{call: 1}, snapshot: &mine}
	b.bases[w.place] = of
	return of, again, nil
}

// near returns the bases of runs under way in trees that overlap a workspace. left: such runs ended
// since a moment. The caller has Backend.mu.
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

// errOwed means that a record in the workspace must be swept first.
var errOwed = errors.New("bubble: an earlier run is not swept")

func (b *Backend) leave(w *want, of *base, call palyra.CallID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of.calls[call]--
	if of.runs--; of.runs > 0 {
		return
	}
	of.snapshot.Release()
	delete(b.bases, w.place)
	b.leftNow(of.workspace)
}

// leftNow notes that the runs in a workspace ended. The caller has Backend.mu.
func (b *Backend) leftNow(workspace string) {
	b.bases[keyLeft+workspace] = &base{workspace: workspace, left: time.Now()}
}

// enlist makes the run one of those in its workspace. The state that it found must hold from now
// on: what others made before they ended has been removed by then.
func (k *keeper) enlist(ctx context.Context) error {
	if err := k.b.settle(k.want.room.Workspace); err != nil {
		return err
	}
	of, again, err := k.b.join(ctx, k.want, k.snapshot, k.call)
	if ctx.Err() != nil && err != nil {
		return refusal.NotBegun(ctx)
	}
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
	return refusal.SpawnFailed("the sealed paths of the workspace changed while the room was built").
		WithRemedy("try again when nobody changes them").WithCause(errors.Join(template.ErrChanged, cause))
}

// stale reports whether the workspace differs from the base.
func (s *base) stale() bool {
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	look := *s.snapshot // nobody replaces it meanwhile
	ctx, cancel := context.WithTimeout(context.Background(), sweepWithin)
	defer cancel()
	stale, err := look.Stale(ctx)
	return stale || err != nil // a scan reports the fault
}

// sweepWithin is far more than a sweep of the largest workspace takes.
const sweepWithin = 10 * time.Minute

// sweep removes what runs made and the base does not know.
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

// estrange makes the other bases forget the paths that a sweep removed: a path that appears there
// again is new. The caller has Backend.mu.
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

// finish is called when nothing of the run is left: it removes the sealed paths that the run made.
// A record whose sweep failed stays, and is tried again before anything else runs in the workspace.
func (k *keeper) finish(x *sandbox.Exit, ran bool) error {
	x.Needed = k.unseen() // before its stage is looked at: what is held of it goes
	k.endLayer(ran)
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

// told sorts the results of a sweep: new paths are reported to the caller, changes by somebody else
// to the operator. more counts the unnamed ones. A run chooses names and their number: the log gets
// the number and the first, and the quarantine's index has all.
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

// left returns the remnants among the results of a sweep.
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
