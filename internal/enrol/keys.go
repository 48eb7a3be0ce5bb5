package enrol

import (
	"context"
	"encoding/json"

	"palyra"
	"palyra/internal/ca"
	"palyra/internal/journal"
	"palyra/internal/keyring"
)

// Keys is every signing key of the daemon: the ring's and the authority's.
type Keys struct {
	*keyring.Ring
	Authority *ca.Authority
	Journal   *journal.Journal
}

// UseCA is the use of the authority's keys.
const UseCA = palyra.KeyCA

// List implements the door's Ring.
func (p Keys) List() []palyra.Key {
	list := p.Ring.List()
	for _, r := range p.Authority.Rotations() {
		list = append(list, r.Old)
	}
	return append(list, p.Authority.Key())
}

// Rotate implements the door's Ring.
func (p Keys) Rotate(ctx context.Context, use palyra.KeyUse, by palyra.Principal) (palyra.Key, error) {
	if use != UseCA {
		return p.Ring.Rotate(ctx, use, by)
	}
	old, next, sig, err := p.Authority.Rotate(ctx)
	if err != nil {
		return palyra.Key{}, err
	}
	_, err = p.Journal.Record(context.WithoutCancel(ctx), palyra.KeyRotated{Use: UseCA, Old: old.ID, Key: next, By: by, Sig: sig})
	return next, err
}

// RecordAuthority puts the authority's keys on record that are not: the first one,
// and one that came when the daemon died before it could say so.
func (p Keys) RecordAuthority(ctx context.Context) error {
	known := map[string]bool{}
	for _, kind := range []string{"key.created", "key.rotated"} {
		err := p.Journal.Bodies(ctx, kind, func(raw []byte) error {
			var e struct {
				Key palyra.Key `json:"key"`
			}
			err := json.Unmarshal(raw, &e)
			known[e.Key.ID] = true
			return err
		})
		if err != nil {
			return err
		}
	}
	var events []palyra.Event
	rotations := p.Authority.Rotations()
	first := p.Authority.Key()
	if len(rotations) > 0 {
		first = rotations[0].Old
	}
	if !known[first.ID] {
		events = append(events, palyra.KeyCreated{Key: first})
	}
	for _, r := range rotations {
		if !known[r.New.ID] {
			events = append(events, palyra.KeyRotated{Use: UseCA, Old: r.Old.ID, Key: r.New, By: palyra.SystemDaemon, Sig: r.Sig})
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err := p.Journal.Record(ctx, events...)
	return err
}
