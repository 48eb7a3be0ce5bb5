package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
)

// private are Palyra's own directories and files.
func (d *Daemon) private() []string {
	p := d.Config.Config.Paths
	all := []string{filepath.Dir(p.State), p.State, p.Keys, filepath.Dir(p.OperatorKey), p.OperatorKey, p.Run, p.SocketDir()}
	if p.Home != "" {
		all = append(all, p.Home)
	}
	for _, provider := range d.Config.Config.Providers {
		if provider.KeyFile != "" {
			all = append(all, provider.KeyFile)
		}
	}
	keys, _ := filepath.Glob(filepath.Join(p.Keys, "*"))
	return append(all, keys...)
}

// modes are those of the private paths when the daemon started: what their owner
// chose, which the start has checked.
func (d *Daemon) modes() map[string]fs.FileMode {
	out := map[string]fs.FileMode{}
	for _, path := range d.private() {
		if fi, err := os.Lstat(path); err == nil {
			out[path] = fi.Mode().Perm()
		}
	}
	return out
}

// guard looks at them after a program of the daemon's own user ran: in tier B a
// program can change the modes of its user's files, wherever they are. A mode
// that lets in more than at the start is set back, and the attempt is on record.
// What was made since is for its owner alone.
func (d *Daemon) guard(ctx context.Context, c *palyra.Call) {
	for _, path := range d.private() {
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		may, known := d.chosen[path]
		if !known {
			may = 0o700
		}
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 && fi.Mode().Perm()&^may != 0 {
			err = os.Chmod(path, fi.Mode().Perm()&may)
			d.alert(ctx, c, path)
		}
		if err != nil {
			d.Log.Error("a private path cannot be kept private", "path", path, "error", err)
		}
	}
}

func (d *Daemon) alert(ctx context.Context, c *palyra.Call, path string) {
	d.Log.Error("a program opened a private path to others; it was closed again", "path", path, "call", string(c.ID))
	_, err := d.journal.Record(context.WithoutCancel(ctx), palyra.AlertRaised{
		Reason: palyra.ReasonUnsafePermissions, Principal: c.Proposal.Principal, PeerUID: c.Proposal.PeerUID, Method: palyra.ToolProcessRun,
	})
	if err != nil {
		d.Log.Error("the alert is not on record", "error", err)
	}
}
