package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

// Previous asks RollbackPolicy for the policies before the present ones.
const Previous = "previous"

// RollbackPolicy puts earlier policies back into force on a state that no daemon
// runs on: those before the present ones, those with a digest, or a preset. It
// needs nobody's say in the policies, since those may let nobody in; whoever has
// the state in hand has that. The journal says that it was done this way.
func RollbackPolicy(ctx context.Context, c Config, to string) (a wire.Activation, err error) {
	if _, err := os.Lstat(c.Config.Paths.State); errors.Is(err, fs.ErrNotExist) {
		return wire.Activation{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no state yet, and so nothing to roll back").WithRemedy("start with 'palyra up'")
	}
	d := &Daemon{Config: c, instance: newID(), started: now()}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, step := range []func(context.Context) error{d.openState, d.openKeys} {
		if err := step(ctx); err != nil {
			return wire.Activation{}, err
		}
	}
	if d.kept, err = policy.NewSnapshots(policy.SnapshotsConfig{DB: d.db, Journal: d.journal, Now: now}); err != nil {
		return wire.Activation{}, err
	}
	if err := d.checkActivations(ctx); err != nil {
		return wire.Activation{}, err
	}
	b, err := d.earlier(ctx, to)
	if err != nil {
		return wire.Activation{}, err
	}
	if d.policy, err = policy.New(d.judging(b)); err != nil {
		return wire.Activation{}, err
	}
	done, err := d.kept.Activate(ctx, b, d.policy.Snapshot(), policy.Author{By: byOffline})
	return activationWords(done, true), err
}

// earlier finds what to go back to.
func (d *Daemon) earlier(ctx context.Context, to string) (*policy.Bundle, error) {
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
