package bubble

import (
	"palyra/internal/preimage"
	"palyra/internal/stage"
)

// Remembers returns the stages, and the store of replaced files; nil: there is none.
func (b *Backend) Remembers() (*stage.Stages, *preimage.Store) { return b.stages.all, b.stages.past }
