package bubble

import (
	"context"
	"errors"
	"sync"
	"time"

	"palyra"
	"palyra/internal/sandbox/template"
)

// build makes a room and waits until it is finished.
func (b *Backend) build(ctx context.Context, w *want) (*keeper, error) {
	for n := 1; ; n++ {
		k, err := b.buildOnce(ctx, w)
		if err == nil || !errors.Is(err, template.ErrChanged) && !errors.Is(err, errUnconfined) || n == triesToBuild {
			return k, err
		}
		b.fleet.Log.Warn("a room is built once more", "err", err, "cause", errors.Unwrap(palyra.AsError(err)))
	}
}

// buildOnce looks at the workspace while the template, if there is none, is made.
func (b *Backend) buildOnce(ctx context.Context, w *want) (*keeper, error) {
	k := &keeper{b: b, want: w}
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
	var err error
	if k.template, err = b.templates.Get(ctx, w.room); err == nil {
		k.release = sync.OnceFunc(k.template.Give)
	}
	if e := <-scanned; e != nil { // the workspace's owner can act on a fault of the workspace
		err = e
	}
	if err == nil && k.stage != nil {
		err = k.stage.CopyDirs(ctx, w.moves, k.firm())
	}
	if err == nil {
		err = k.enter(ctx)
	}
	if err != nil {
		k.discard()
		return nil, err
	}
	k.since = time.Now()
	return k, nil
}
