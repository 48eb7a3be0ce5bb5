// Package bundle puts policies into force: the preset, a directory, a bundle that a person applies or rolls
// back to, and the policies that workspaces have of their own.
//
// Promises: a bundle is examined whole, with its tests, before it is in force; it is kept and on record
// before the first verdict is made with it; one under which no owner could change policy any more is refused
// unless that is meant, and Offline is the way back from it.
package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"palyra"
	"palyra/internal/journal"
	"palyra/internal/policy"
	"palyra/internal/policy/inforce"
	"palyra/internal/store"
)

// Config wires the Bundles.
type Config struct {
	DB      *store.DB
	Journal *journal.Journal
	Judging func(*policy.Bundle) policy.Config           // the configuration of an engine that judges with the bundle
	Users   func(context.Context) ([]palyra.User, error) // everybody that the access registry knows
	Trouble func(error)                                  // hears of problems of the directory, and nil when they are over; nil: nobody hears
	Preset  string                                       // in force where nobody chose
	Dir     string                                       // a directory of policies; empty: none
	Now     func() time.Time
	Log     *slog.Logger
}

// Bundles is the policies in force and those before.
type Bundles struct {
	Config
	engine   *policy.Engine
	kept     *inforce.Snapshots
	changing sync.Mutex // held while another bundle comes into force
}

// Engine returns the engine that judges by the policies in force. It stays the same when others come into force.
func (d *Bundles) Engine() *policy.Engine { return d.engine }

// Snapshot returns a kept configuration.
func (d *Bundles) Snapshot(ctx context.Context, digest palyra.Digest) (palyra.Snapshot, error) {
	return d.kept.Get(ctx, digest)
}

// Authors of activations that no person signed.
const (
	byDaemon                   = palyra.SystemDaemon // a preset, or another configuration under the same bundle
	byConfig  palyra.Principal = "system:config"     // the configured directory
	byOffline palyra.Principal = "system:offline"    // somebody with access to the state's files, while no daemon runs
)

// open returns Bundles without an engine, on a table that the journal agrees with.
func open(ctx context.Context, c Config) (d *Bundles, err error) {
	if c.DB == nil || c.Journal == nil || c.Judging == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("bundle: open: a part is missing")
	}
	d = &Bundles{Config: c}
	if d.kept, err = inforce.NewSnapshots(inforce.SnapshotsConfig{DB: d.DB, Journal: d.Journal, Now: d.Now}); err != nil {
		return nil, err
	}
	return d, d.checkActivations(ctx)
}

// Open puts the bundle that was chosen last into force with the configuration, or the preset where nobody chose.
func Open(ctx context.Context, c Config) (*Bundles, error) {
	d, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	bundle, chosen, err := d.chosenBundle(ctx)
	if err != nil {
		return nil, err
	}
	if d.engine, err = policy.New(d.Judging(bundle)); err != nil {
		return nil, err
	}
	if _, err := d.kept.Activate(ctx, bundle, d.engine.Snapshot(), inforce.Author{By: byDaemon}); err != nil {
		return nil, err
	}
	if err := d.Load(ctx); err != nil {
		if !chosen {
			return nil, err // the chosen policies cannot be read: other ones would be a guess
		}
		d.Log.Warn("the policy directory is not in force; the policies in force stay", "error", err)
	}
	return d, nil
}

// chosenBundle is the bundle that somebody put into force last. A change of the configuration alone is recorded
// under the daemon's own name and chooses nothing. Where nobody chose it is the preset, which comes with the
// program and so changes with it.
func (d *Bundles) chosenBundle(ctx context.Context) (b *policy.Bundle, chosen bool, err error) {
	a, err := d.kept.Chosen(ctx, byDaemon)
	if palyra.CodeOf(err) == palyra.NotFound {
		files, err := policy.Preset(d.Preset)
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
		return nil, false, palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "the policies in force (%s) cannot be read: %s", a.Bundle,
			palyra.AsError(err).Text).
			WithRemedy("put others into force with 'palyra policy rollback --offline'").WithCause(err)
	}
	return b, true, nil
}

// checkActivations holds the table of activations against the journal, which is signed: a row that somebody
// wrote or removed past the daemon must not choose policies.
func (d *Bundles) checkActivations(ctx context.Context) error {
	rows, err := d.kept.History(ctx, 0)
	if err != nil {
		return err
	}
	kept := make(map[int64]inforce.Activation, len(rows))
	for _, a := range rows {
		kept[a.Number] = a
	}
	kind := palyra.PolicyActivated{}.Kind()
	for from := int64(1); ; {
		page, err := d.Journal.Entries(ctx, palyra.EntryFilter{From: from, Kind: kind, Limit: 500})
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
func sameActivation(e palyra.Entry, a inforce.Activation) bool {
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

// Name names the policies in force.
func (d *Bundles) Name() string {
	if name := policy.PresetOf(d.engine.Bundle().Digest()); name != "" {
		return name
	}
	return "custom"
}

// put makes a bundle the one in force: it is kept and on record before the first verdict is made with it. A daemon
// that dies between the two starts with it. Whoever calls it holds changing.
func (d *Bundles) put(ctx context.Context, b *policy.Bundle, a inforce.Author) (inforce.Activation, error) {
	c := d.Judging(b)
	trial, err := policy.New(c) // a trial engine, so that the real one cannot refuse the bundle
	if err != nil {
		return inforce.Activation{}, err
	}
	done, err := d.kept.Activate(context.WithoutCancel(ctx), b, trial.Snapshot(), a)
	if err != nil {
		return inforce.Activation{}, err
	}
	return done, d.engine.Swap(c)
}

// owners are the people whose powers must not be lost: those who are bound to no workspaces, since others
// cannot change policy.
func (d *Bundles) owners(ctx context.Context) ([]palyra.Principal, error) {
	all, err := d.Users(ctx)
	var out []palyra.Principal
	for _, u := range all {
		if u.Role == palyra.RoleOwner && u.RemovedAt.IsZero() && len(u.Workspaces) == 0 {
			out = append(out, u.Principal)
		}
	}
	return out, err
}

// lostPowers is what no owner could do any more under a bundle.
func (d *Bundles) lostPowers(ctx context.Context, b *policy.Bundle) ([]inforce.Loss, error) {
	owners, err := d.owners(ctx)
	if err != nil {
		return nil, err
	}
	return inforce.Lost(ctx, d.Judging(b), owners)
}
