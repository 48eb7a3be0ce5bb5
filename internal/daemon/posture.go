package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"palyra"
	"palyra/internal/keyring"
	"palyra/internal/posture"
	"palyra/internal/quarantine"
	"palyra/internal/sandbox"
)

// openPosture makes ready what tries the tiers out.
func (d *Daemon) openPosture(ctx context.Context) (err error) {
	dir := d.places().Posture
	if err := ownDir(dir); err != nil {
		return err
	}
	d.posture, err = posture.New(ctx, posture.Config{
		DB: d.db, Journal: d.journal, Signer: func() posture.Signer { return d.ring.Signer(keyring.Attestation) },
		Host: posture.Host{
			Runner: trials{d}, Tiers: []palyra.Tier{palyra.TierB, palyra.TierC}, Facts: d.facts, Dir: dir,
			UID: int64(os.Geteuid()), GID: int64(os.Getegid()), StateID: d.stateID, Now: now, Log: d.Log,
		},
	})
	return err
}

// ownDir makes a directory that is the daemon's alone and that others may pass
// through.
func ownDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !fi.IsDir() || fi.Mode().Perm()&0o022 != 0 || !owns(fi) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s is not a directory of the daemon's own", path).WithRemedy("remove it; it is made again")
	}
	return os.Chmod(path, 0o711)
}

// tryAfter is when a daemon that has just started tries its tiers out: those who
// started it want the machine for themselves first.
const tryAfter = 30 * time.Second

// tryOut looks after what is known of the tiers until ctx ends.
func (d *Daemon) tryOut(ctx context.Context) error {
	wait := tryAfter
	if d.Config.Config.Process.Posture == "require" {
		wait = 0
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(wait):
	}
	return d.posture.Run(ctx)
}

// facts are what the sandbox stands on. When one changes, what was found before
// is not known to hold any more.
func (d *Daemon) facts() map[string]string {
	all := map[string]string{"egress_mode": d.Config.Config.Egress.Mode, "cgroup": d.Config.Config.Process.Cgroup, "cell": d.CellDigest}
	all["uid"] = strconv.Itoa(os.Geteuid())
	for _, b := range d.path.native.backends {
		if e, err := b.Probe(context.Background(), palyra.Limits{}); err == nil { // what really holds, not what is set
			for name, how := range e.Limits {
				all["limit_"+strings.ToLower(string(b.Tier()))+"_"+name] = how
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

// current is what was found out about a tier, for plans and attestations.
func (d *Daemon) current(t palyra.Tier) (palyra.Digest, bool) {
	if d.posture == nil {
		return "", false
	}
	digest, held, _ := d.posture.Current(t)
	return digest, held
}

// holds reports whether a tier is known to hold, for policy.
func (d *Daemon) holds(t palyra.Tier) bool {
	_, held := d.current(t)
	return held
}

// trials runs probes in the real tiers.
type trials struct{ *Daemon }

// Promise implements posture.Runner: what the tier itself promises, not what is
// known of it from probing.
func (t trials) Promise(ctx context.Context, tier palyra.Tier, l palyra.Limits) (palyra.Enforcement, error) {
	for _, b := range t.path.native.backends {
		if b.Tier() == tier {
			return b.Probe(ctx, l)
		}
	}
	return palyra.Enforcement{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "there is no tier %s here", tier)
}

// Run implements posture.Runner.
func (t trials) Run(ctx context.Context, tier palyra.Tier, j posture.Job) (posture.Exit, error) {
	r, err := t.path.native.runner.Try(ctx, tier, sandbox.Trial{
		Call: j.Call, Path: j.Path, Argv: j.Argv, Workspace: j.Workspace, Private: j.Private, UID: j.UID, GID: j.GID,
		Limits: j.Limits, Seals: j.Seals, Network: j.Network,
	})
	if q := t.Config.Config.Paths.Quarantine; q != "" && j.Call != "" {
		_ = quarantine.Remove(q, string(j.Call)) // what a probe made is of no use to anybody
	}
	return posture.Exit{
		Stdout: r.Stdout, Code: r.Code, Signal: r.Signal, Limit: r.Limit, Quarantined: r.Quarantined, Enforcement: r.Enforcement, Flows: r.Flows,
	}, err
}
