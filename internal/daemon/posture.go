package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"palyra"
	"palyra/internal/keyring"
	"palyra/internal/posture"
	"palyra/internal/tiers"
)

// openPosture opens the store of postures, which tries the tiers out.
func (d *Daemon) openPosture(ctx context.Context) (err error) {
	dir := d.places().Posture
	if err := ownDir(dir); err != nil {
		return err
	}
	d.posture, err = posture.New(ctx, posture.Config{
		DB: d.db, Journal: d.journal, Signer: func() posture.Signer { return d.ring.Signer(keyring.Attestation) },
		Host: posture.Host{
			Runner: tiers.Trials{Tiers: d.path.tiers}, Tiers: []palyra.Tier{palyra.TierB, palyra.TierC}, Facts: d.path.tiers.Facts, Dir: dir,
			UID: int64(os.Geteuid()), GID: int64(os.Getegid()), StateID: d.stateID, Now: now, Log: d.Log,
		},
	})
	return err
}

// ownDir makes a directory that is the daemon's alone and that others may pass through.
func ownDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !fi.IsDir() || fi.Mode().Perm()&0o022 != 0 || !owns(fi) {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s is not a directory of the daemon's own", path).
			WithRemedy("remove it; it is made again")
	}
	return os.Chmod(path, 0o711)
}

// tryAfter is when a daemon that has just started tries its tiers out: those who
// started it want the machine for themselves first.
const tryAfter = 30 * time.Second

// tryOut looks after what is known of the tiers until ctx ends.
func (d *Daemon) tryOut(ctx context.Context) error {
	wait := tryAfter
	if d.Settings.Process.Posture == "require" {
		wait = 0
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(wait):
	}
	return d.posture.Run(ctx)
}

// current is the posture of a tier, for plans and attestations.
func (d *Daemon) current(t palyra.Tier) (palyra.Digest, bool) {
	if d.posture == nil {
		return "", false
	}
	digest, held, _ := d.posture.Current(t)
	return digest, held
}

// tierHolds reports whether a tier is known to hold, for policy.
func (d *Daemon) tierHolds(t palyra.Tier) bool {
	_, held := d.current(t)
	return held
}
