package tiers

import (
	"context"
	"os"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/posture"
	"palyra/internal/quarantine"
	"palyra/internal/sandbox"
)

// Facts are what the sandbox stands on. When one changes, what was found before is not known to hold any more.
func (t *Tiers) Facts() map[string]string {
	all := map[string]string{"egress_mode": string(t.Settings.Egress.Mode), "cgroup": t.Settings.Process.Cgroup, "cell": t.CellDigest}
	all["uid"] = strconv.Itoa(os.Geteuid())
	for _, b := range t.backends {
		if e, err := b.Probe(context.Background(), palyra.Limits{}); err == nil { // what really holds, not what is set
			for name, how := range e.Limits {
				all["limit_"+strings.ToLower(string(b.Tier()))+"_"+name] = string(how)
			}
		}
		if f, ok := b.(interface{ Facts() map[string]string }); ok {
			for k, v := range f.Facts() {
				all[k] = v
			}
		}
	}
	return all
}

// Trials runs probes in the real tiers.
type Trials struct{ *Tiers }

// Promise implements posture.Runner: what the tier itself promises, not what is known of it from probing.
func (t Trials) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	for _, b := range t.backends {
		if b.Tier() == tier {
			return b.Probe(ctx, l)
		}
	}
	return palyra.Enforcement{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "there is no tier %s here", tier)
}

// Run implements posture.Runner.
func (t Trials) Run(ctx context.Context, tier palyra.Tier, j posture.Job) (posture.Exit, error) {
	r, err := t.Runner.Try(ctx, tier, sandbox.Trial{
		Call: j.Call, Path: j.Path, Argv: j.Argv, Workspace: j.Workspace, Private: j.Private, UID: j.UID, GID: j.GID,
		Limits: j.Limits, Seals: j.Seals, Network: j.Network,
	})
	if q := t.Settings.Paths.Quarantine; q != "" && j.Call != "" {
		_ = quarantine.Remove(q, string(j.Call)) // what a probe made is of no use to anybody
	}
	return posture.Exit{
		Stdout: r.Stdout, Code: r.Code, Signal: r.Signal, Limit: r.Limit, Quarantined: r.Quarantined, Enforcement: r.Enforcement, Flows: r.Flows,
	}, err
}
