package tiers

import (
	"palyra/internal/preimage"
	"palyra/internal/stage"
)

// Remembers returns where what runs replaced lies, and the stages by which it is put back; nil: nowhere.
func (t *Tiers) Remembers() (*stage.Stages, *preimage.Store) {
	for _, b := range t.backends {
		r, ok := b.(interface {
			Remembers() (*stage.Stages, *preimage.Store)
		})
		if !ok {
			continue
		}
		if stages, past := r.Remembers(); stages != nil && past != nil {
			return stages, past
		}
	}
	return nil, nil
}
