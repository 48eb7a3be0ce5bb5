package daemon

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/journal"
	"palyra/internal/policy"
)

// Who answers for an activation that no person signed.
const (
	byDaemon  palyra.Principal = "system:daemon"  // a preset, or another configuration under the same bundle
	byConfig  palyra.Principal = "system:config"  // the configured directory
	byOffline palyra.Principal = "system:offline" // somebody with the state in hand and no daemon
)

// openPolicy puts the bundle that was chosen last into force with the
// configuration, or the preset where nobody chose.
func (d *Daemon) openPolicy(ctx context.Context) (err error) {
	if d.kept, err = policy.NewSnapshots(policy.SnapshotsConfig{DB: d.db, Journal: d.journal, Now: now}); err != nil {
		return err
	}
	if err := d.checkActivations(ctx); err != nil {
		return err
	}
	bundle, chosen, err := d.chosenBundle(ctx)
	if err != nil {
		return err
	}
	if d.policy, err = policy.New(d.judging(bundle)); err != nil {
		return err
	}
	if _, err := d.kept.Activate(ctx, bundle, d.policy.Snapshot(), policy.Author{By: byDaemon}); err != nil {
		return err
	}
	if err := d.loadPolicyDir(ctx); err != nil {
		if !chosen {
			return err // what was meant to judge never did: another answer would be a guess
		}
		d.Log.Warn("the policy directory is not in force; the policies in force stay", "error", err)
	}
	return nil
}

// judging is what an engine judges with.
func (d *Daemon) judging(b *policy.Bundle) policy.Config {
	return policy.Config{
		Bundle: b, Snapshot: d.snapshot(), Probed: d.holds, Analyse: command.Of, Project: d.projects.of, Standing: d.standing, Now: now,
	}
}

// standing is what the access registry knows of a caller.
func (d *Daemon) standing(p, owner palyra.Principal) (palyra.Standing, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return d.access.Standing(ctx, p, owner)
}

// chosenBundle is the bundle that somebody put into force last. A change of the
// configuration alone is recorded under the daemon's own name and chooses nothing.
// Where nobody chose it is the preset, which comes with the program and so
// changes with it.
func (d *Daemon) chosenBundle(ctx context.Context) (b *policy.Bundle, chosen bool, err error) {
	a, err := d.kept.Chosen(ctx, byDaemon)
	if palyra.CodeOf(err) == palyra.NotFound {
		files, err := policy.Preset(d.Config.Config.Policy.Preset)
		if err != nil {
			return nil, false, err
		}
		b, report := policy.Check(files)
		if b == nil {
			return nil, false, report.Problems
		}
		return b, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if b, err = d.kept.Bundle(ctx, a.Bundle); err != nil {
		return nil, false, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the policies in force (%s) cannot be read: %s", a.Bundle, palyra.AsError(err).Text).
			WithRemedy("put others into force with 'palyra policy rollback --offline'").WithCause(err)
	}
	return b, true, nil
}

// checkActivations holds the table of what was in force against the journal,
// which is signed: a row that somebody wrote or took away past the daemon chooses
// no policies.
func (d *Daemon) checkActivations(ctx context.Context) error {
	rows, err := d.kept.History(ctx, 0)
	if err != nil {
		return err
	}
	kept := make(map[int64]policy.Activation, len(rows))
	for _, a := range rows {
		kept[a.Number] = a
	}
	kind := palyra.PolicyActivated{}.Kind()
	for from := int64(1); ; {
		page, err := d.journal.Entries(ctx, journal.Query{From: from, Kind: kind, Limit: 500})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if !sameActivation(e, kept[e.Seq]) {
				return tampered(e.Seq)
			}
			delete(kept, e.Seq)
			from = e.Seq + 1
		}
	}
	for seq := range kept {
		return tampered(seq)
	}
	return nil
}

// sameActivation compares a line of the journal with a row.
func sameActivation(e palyra.Entry, a policy.Activation) bool {
	raw, err := json.Marshal(e.Body)
	if err != nil {
		return false
	}
	var said palyra.PolicyActivated
	err = json.Unmarshal(raw, &said)
	return err == nil && said.Bundle == a.Bundle && said.Snapshot == a.Snapshot && said.By == a.By && a.Number == e.Seq
}

func tampered(seq int64) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "the policy activation %d is not the one the journal knows", seq).
		WithRemedy("somebody changed the state past the daemon; look at 'palyra journal verify' on a copy, and restore a backup")
}

// preset names the policies in force.
func (d *Daemon) preset() string {
	if name := policy.PresetOf(d.policy.Bundle().Digest()); name != "" {
		return name
	}
	return "custom"
}

// put makes a bundle the one in force: it is kept and on record before the first
// verdict is made with it. A daemon that dies between the two starts with it.
// Whoever calls it holds changing.
func (d *Daemon) put(ctx context.Context, b *policy.Bundle, a policy.Author) (policy.Activation, error) {
	c := d.judging(b)
	trial, err := policy.New(c) // what this one takes, the real one takes
	if err != nil {
		return policy.Activation{}, err
	}
	done, err := d.kept.Activate(context.WithoutCancel(ctx), b, trial.Snapshot(), a)
	if err != nil {
		return policy.Activation{}, err
	}
	return done, d.policy.Swap(c)
}

// owners are the people whose say must not be lost: those who are bound to no
// workspaces, since others change no policy.
func (d *Daemon) owners(ctx context.Context) ([]palyra.Principal, error) {
	all, err := d.access.Users(ctx)
	var out []palyra.Principal
	for _, u := range all {
		if u.Role == palyra.RoleOwner && u.RemovedAt.IsZero() && len(u.Workspaces) == 0 {
			out = append(out, u.Principal)
		}
	}
	return out, err
}

// lost is what no owner could do any more under a bundle.
func (d *Daemon) lost(ctx context.Context, b *policy.Bundle) ([]policy.Loss, error) {
	owners, err := d.owners(ctx)
	if err != nil {
		return nil, err
	}
	return policy.Lost(ctx, d.judging(b), owners)
}
