package bundle

import (
	"context"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/inforce"
	"palyra/internal/rpc/wire"
)

// Previous asks Offline for the policies before the present ones.
const Previous = "previous"

// Offline puts earlier policies back into force on a state that no daemon runs on: those before the present
// ones, those with a digest, or a preset. It needs no permission of the policies, since those may let nobody
// in; whoever can write the state could change them anyway. The journal says that it was done this way.
func Offline(ctx context.Context, c Config, to string) (wire.Activation, error) {
	d, err := open(ctx, c)
	if err != nil {
		return wire.Activation{}, err
	}
	b, err := d.previousBundle(ctx, to)
	if err != nil {
		return wire.Activation{}, err
	}
	engine, err := policy.New(d.Judging(b))
	if err != nil {
		return wire.Activation{}, err
	}
	done, err := d.kept.Activate(ctx, b, engine.Snapshot(), inforce.Author{By: byOffline})
	return activationWords(done, true), err
}

// previousBundle finds the bundle to go back to.
func (d *Bundles) previousBundle(ctx context.Context, to string) (*policy.Bundle, error) {
	digest := palyra.Digest(to)
	switch {
	case to == Previous:
		last, err := d.kept.Before(ctx)
		if err != nil {
			return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no other policies were in force before").
				WithRemedy("name a preset: palyra policy rollback --offline default").WithCause(err)
		}
		digest = last.Bundle
	case !digest.Valid():
		files, err := policy.Preset(to)
		if err != nil {
			return nil, err
		}
		b, report := policy.Check(files)
		if b == nil {
			return nil, report.Problems
		}
		return b, nil
	}
	return d.kept.Bundle(ctx, digest)
}
