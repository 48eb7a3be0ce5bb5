package bubble

import "palyra/internal/stage"

// Remembers returns the stages, and where what runs replaced lies; nil: nowhere.
func (b *Backend) Remembers() (*stage.Stages, *stage.Past) { return b.stages.all, b.stages.past }
