package bundle

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/policy/inforce"
)

// Follow reads the policy directory again on each SIGHUP until ctx ends. Without a directory the signal only
// logs that there is nothing to read: asking for a reload must not end the daemon.
func (d *Bundles) Follow(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			if d.Dir == "" {
				d.Log.Info("there is no policy directory to read again; policies are put into force with 'palyra policy apply DIR', or set policy.dir")
				continue
			}
			if err := d.Load(ctx); err != nil {
				d.Log.Warn("the policy directory is not in force; the policies in force stay", "error", err)
			}
		}
	}
}

// Load puts the configured directory into force when its content differs from the one last put into force: a
// bundle that a person applied or rolled back to since then holds until the directory changes. Problems of
// the directory are also in the status.
func (d *Bundles) Load(ctx context.Context) (err error) {
	dir := d.Dir
	if dir == "" {
		return nil
	}
	defer func() {
		if d.Trouble != nil {
			d.Trouble(err)
		}
	}()
	files, err := readPolicyDir(ctx, dir)
	if err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	b, check, lost, err := d.examine(ctx, files)
	if err == nil && b == nil {
		err = bundleRefusal(check)
	}
	if err == nil {
		err = refuseLoss(lost, false)
	}
	if err != nil {
		return err
	}
	last, err := d.kept.By(ctx, byConfig)
	if err == nil && last.Bundle == b.Digest() || err != nil && palyra.CodeOf(err) != palyra.NotFound {
		return err
	}
	if _, err = d.put(ctx, b, inforce.Author{By: byConfig}); err == nil {
		d.Log.Info("the policy directory is in force", "dir", dir, "bundle", b.Digest())
	}
	return err
}

// readPolicyDir reads a directory that only its owner, us or root, can have written: whoever can write there
// decides what agents may do.
func readPolicyDir(ctx context.Context, dir string) (map[string]string, error) {
	files, err := settledFiles(ctx, dir)
	if err != nil {
		return nil, err
	}
	places := []string{dir}
	for name := range files {
		places = append(places, filepath.Join(dir, name), filepath.Dir(filepath.Join(dir, name)))
	}
	for _, path := range places {
		if err := config.Ours(path); err != nil {
			return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsafePermissions, "policy directory: %s %v", path, err).
				WithRemedy("make it yours or root's, without write permission for others (chmod go-w)")
		}
	}
	return files, nil
}
