package bubble

import (
	"context"
	"path/filepath"
	"strconv"

	"palyra"
	"palyra/internal/subpath"
)

// A sealed path that is replaced is not held by the mounts of rooms any more. Whoever runs there directly could write to
// it, and the sweep at the end of any run with seals would put back what was there before, though somebody agreed to the
// change. So no change of what another run seals is kept while that is under way.

// admit refuses the changes of paths that other runs than the call's seal. Until done is called no run with seals begins
// there.
func (b *Backend) admit(call, workspace string, paths []string) (refused []string, done func()) {
	now := make(chan struct{})
	b.mu.Lock()
	b.keeps[now] = workspace
	var near []*base
	for _, o := range b.bases {
		if o.runs > o.calls[palyra.CallID(call)] && subpath.Touch(o.workspace, workspace) {
			near = append(near, o)
		}
	}
	b.mu.Unlock()
	for _, o := range near {
		seals := b.sealsOf(o)
		for _, p := range paths {
			if rel, inside := subpath.Rel(o.workspace, filepath.Join(workspace, p)); inside && rel != "." && seals(rel) {
				refused = append(refused, strconv.Quote(p))
			}
		}
	}
	return refused, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.keeps, now)
		b.leftNow(workspace) // who looked at it before looks again
		close(now)
	}
}

// sealsOf tells which paths the runs of a base seal.
func (b *Backend) sealsOf(o *base) func(rel string) bool {
	o.sweeping.Lock()
	defer o.sweeping.Unlock()
	b.mu.Lock()
	known := o.now()
	b.mu.Unlock()
	return known.Apart().Seals()
}

// waitKept waits until no changes are being put into a workspace. The caller has Backend.mu.
func (b *Backend) waitKept(ctx context.Context, workspace string) error {
	for now, in := range b.keeps {
		if subpath.Touch(in, workspace) {
			b.mu.Unlock()
			select {
			case <-now:
			case <-ctx.Done():
			}
			b.mu.Lock()
			if err := ctx.Err(); err != nil {
				return err
			}
			return b.waitKept(ctx, workspace) // another may have begun
		}
	}
	return nil
}
