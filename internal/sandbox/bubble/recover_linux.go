package bubble

import (
	"context"
	"errors"
)

// Recover implements sandbox.Backend: it ends rooms of this state that an earlier daemon left, and then removes the
// sealed paths that their runs made. It fails only when something of them still lives, or the backend's own
// directory cannot be read. A workspace that cannot be swept is closed to runs until it can: Start tries again.
func (b *Backend) Recover(ctx context.Context) error {
	if err := errors.Join(b.templates.End(ctx), b.fleet.Recover(ctx)); err != nil { // also where nothing can run any more
		return err // living processes could make more during the sweep
	}
	if err := b.recoverStages(ctx); err != nil { // before the sweep, because kept changes may be sealed
		return err
	}
	return errors.Join(b.sweepRecords(ctx), ctx.Err())
}
