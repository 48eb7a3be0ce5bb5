package bubble

import (
	"context"
	"errors"
	"time"

	"palyra/internal/sandbox"
)

// build makes a room and waits until it is finished.
func (b *Backend) build(ctx context.Context, w *want) (*keeper, error) {
	for n := 1; ; n++ {
		k, err := b.buildOnce(ctx, w)
		if err == nil || !errors.Is(err, errChanged) || n == triesToBuild {
			return k, err
		}
	}
}

func (b *Backend) buildOnce(ctx context.Context, w *want) (*keeper, error) {
	k, err := b.begin(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := k.built(ctx); err != nil {
		k.discard()
		return nil, err
	}
	k.since = time.Now()
	return k, nil
}

// await makes sure that a keeper can take a job. It waits for a room that is still being built,
// unless the job needs nothing unknown of it: the cell then runs the job as soon as the room is
// built. Nothing runs before the doors are served.
func (k *keeper) await(ctx context.Context, j sandbox.Job) error {
	switch {
	case !k.building:
		return k.fresh(ctx)
	case len(j.Doors) == 0 && k.Cgroups().Pids != "": // otherwise the cell's own tasks are counted with the run's
		return nil
	}
	if err := k.prepare(); err != nil {
		return k.whyNot(ctx, err)
	}
	return k.built(ctx)
}

// begin has a room built. It looks at the workspace while bubblewrap works.
func (b *Backend) begin(ctx context.Context, w *want) (*keeper, error) {
	k := &keeper{b: b, want: w, shows: w.identities(), building: true}
	if err := k.makeStage(); err != nil {
		return nil, err
	}
	scanned := make(chan error, 1)
	b.fleet.Go(func() {
		err := k.place(ctx)
		if err == nil {
			err = k.scan(ctx)
		}
		scanned <- err
	})
	err := k.enter()
	if e := <-scanned; e != nil { // the workspace's owner can act on a fault of the workspace
		err = e
	}
	if err == nil && k.stage != nil {
		err = k.stage.CopyDirs(ctx, w.moves, k.firm())
	}
	if err == nil {
		err = k.furnish(ctx)
	}
	if err != nil {
		k.discard()
		return nil, err
	}
	return k, nil
}
