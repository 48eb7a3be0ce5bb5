package tiers

import (
	"context"
	"slices"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/sandbox"
	"palyra/internal/tool/process"
)

// With are the tiers as they would plan programs under other settings: the same drivers and rooms, another guard and
// another tool. Nothing runs in them.
func (t *Tiers) With(c config.Config) (*Tiers, error) {
	guard, err := guardOf(c.Egress, nil, t.Now, t.Log)
	if err != nil {
		return nil, err
	}
	masks, err := masksOf(c, t.Masks.Key)
	if err != nil {
		return nil, err
	}
	conf := programs(t.Tool.Config, c, guard)
	conf.Masked = masks.On
	conf.Tiers = otherTiers{t, egressGuard{Guard: guard, Egress: c.Egress}, c.Process.Posture}
	tool, err := process.New(conf)
	return &Tiers{Tool: tool, Guard: guard, Masks: masks}, err
}

// otherTiers are the tiers of this machine under other settings of what leaves them and of whether they must be
// known to hold. How limits are held is a matter of the machine and stays what it is.
type otherTiers struct {
	*Tiers
	guard   egressGuard
	posture string
}

// Promise implements the process tool's Tiers.
func (t otherTiers) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	_, err := t.Runner.Promise(ctx, tier, l)
	if unproven := palyra.AsError(err).Reason == palyra.ReasonPosture && t.posture != "require"; err != nil && !unproven {
		return palyra.Enforcement{}, err
	}
	e, err := Trials{t.Tiers}.Promise(ctx, tier, l)
	if err != nil {
		return palyra.Enforcement{}, err
	}
	e.Mechanisms = slices.Clone(e.Mechanisms)
	if t.walled(tier) {
		e.Mode = t.guard.Mode()
		e.Mechanisms = append(e.Mechanisms, t.guard.Mechanisms()...)
	}
	slices.Sort(e.Mechanisms)
	return e, nil
}

// walled reports whether runs in the tier have a network of their own.
func (t otherTiers) walled(tier palyra.Tier) bool {
	return slices.ContainsFunc(t.backends, func(b sandbox.Backend) bool {
		w, ok := b.(sandbox.Walled)
		return ok && b.Tier() == tier && w.Room()
	})
}
