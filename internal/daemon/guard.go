package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
)

// private are Palyra's own directories and files that nobody else may enter or
// read.
func (d *Daemon) private() []string {
	p := d.Config.Config.Paths
	all := []string{filepath.Dir(p.State), p.State, p.Keys, filepath.Dir(p.OperatorKey), p.OperatorKey, p.Run, p.SocketDir()}
	if p.Home != "" {
		all = append(all, p.Home)
	}
	keys, _ := filepath.Glob(filepath.Join(p.Keys, "*"))
	return append(all, keys...)
}

// guard looks at them after a program of the daemon's own user ran: in tier B a
// program can change the modes of its user's files, wherever they are. A mode
// that lets others in is set back, and the attempt is on record.
func (d *Daemon) guard(ctx context.Context, c *palyra.Call) {
	for _, path := range d.private() {
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 && fi.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(path, fi.Mode().Perm()&^0o077)
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
		Reason: palyra.ReasonUnsafePermissions, Principal: c.Proposal.Principal, PeerUID: c.Proposal.PeerUID, Method: "palyra.process.run",
	})
	if err != nil {
		d.Log.Error("the alert is not on record", "error", err)
	}
}
