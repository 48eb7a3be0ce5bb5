package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"palyra"
	"palyra/internal/bundle"
	"palyra/internal/command"
	"palyra/internal/past"
	"palyra/internal/policy"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// openPolicy puts policies into force.
func (d *Daemon) openPolicy(ctx context.Context) (err error) {
	if d.groups, err = d.Settings.HostGroups(); err != nil {
		return err
	}
	if d.bundles, err = bundle.Open(ctx, d.bundleConfig()); err == nil {
		d.policy = d.bundles.Engine()
	}
	return err
}

func (d *Daemon) bundleConfig() bundle.Config {
	return bundle.Config{
		DB: d.db, Journal: d.journal, Judging: d.judging, Preset: d.Settings.Policy.Preset, Dir: d.Settings.Policy.Dir, Now: now, Log: d.Log,
		Users:   func(ctx context.Context) ([]palyra.User, error) { return d.access.Users(ctx) },
		Trouble: func(err error) { d.trouble.Set("policy", err) },
	}
}

// judging is what an engine judges with.
func (d *Daemon) judging(b *policy.Bundle) policy.Config {
	return policy.Config{
		Bundle: b, Snapshot: d.Settings.Snapshot(), Probed: d.tierHolds, Analyse: command.Of, Project: d.projects.Of, Standing: d.standing,
		Now: now, Groups: d.groups,
	}
}

// standing is what the access registry knows of a caller.
func (d *Daemon) standing(p, owner palyra.Principal) (palyra.Standing, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return d.access.Standing(ctx, p, owner)
}

// history is the calls on record.
func (d *Daemon) history() past.Past {
	return past.Past{Config: past.Config{
		Ledger: d.path.ledger, Journal: d.journal, Desk: d.desk, Bundles: d.bundles, Judging: d.judging, Projects: &d.projects, Now: now,
	}}
}

// bundlesPart is the bundles as the door knows them.
type bundlesPart struct{ *bundle.Bundles }

func callerOf(c rpc.Caller) bundle.Caller {
	return bundle.Caller{Principal: c.Operator.Principal, Role: c.Role, Signed: c.Signed, Evidence: c.Evidence}
}

// Apply implements the door's Bundles.
func (p bundlesPart) Apply(ctx context.Context, who rpc.Caller, files map[string]string, force bool) (wire.PolicyCheck, wire.Activation,
	error,
) {
	return p.Bundles.Apply(ctx, callerOf(who), files, force)
}

// Rollback implements the door's Bundles.
func (p bundlesPart) Rollback(ctx context.Context, who rpc.Caller, digest palyra.Digest, force bool) (wire.Activation, error) {
	return p.Bundles.Rollback(ctx, callerOf(who), digest, force)
}

// RollbackPolicy puts earlier policies back into force on a state that no daemon runs on; see bundle.Offline.
func RollbackPolicy(ctx context.Context, c Config, to string) (a wire.Activation, err error) {
	if _, err := os.Lstat(c.Settings.Paths.State); errors.Is(err, fs.ErrNotExist) {
		return wire.Activation{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no state yet, and so nothing to roll back").
			WithRemedy("start with 'palyra up'")
	}
	d := newRecords(c)
	defer func() { err = errors.Join(err, d.close()) }()
	for _, step := range []func(context.Context) error{d.openState, d.openKeys} {
		if err := step(ctx); err != nil {
			return wire.Activation{}, err
		}
	}
	judging := func(b *policy.Bundle) policy.Config {
		return policy.Config{Bundle: b, Snapshot: d.Settings.Snapshot(), Analyse: command.Of, Now: now}
	}
	return bundle.Offline(ctx, bundle.Config{DB: d.db, Journal: d.journal, Judging: judging, Now: now, Log: d.Log}, to)
}
