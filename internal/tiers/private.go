package tiers

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"palyra"
)

// modes are those of the private paths when the daemon started: what their owner
// chose, which the start has checked.
func modes(private []string) map[string]fs.FileMode {
	out := map[string]fs.FileMode{}
	for _, path := range private {
		if fi, err := os.Lstat(path); err == nil {
			out[path] = fi.Mode().Perm()
		}
	}
	return out
}

// keepPrivate looks at them after a program of the daemon's own user ran: in tier B a program can change the modes
// of its user's files, wherever they are. A mode that lets in more than at the start is set back, and the attempt
// is on record. What was made since is for its owner alone.
func (t *Tiers) keepPrivate(ctx context.Context, c *palyra.Call) {
	for _, path := range t.Settings.Private() {
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		may, known := t.chosen[path]
		if !known {
			may = 0o700
		}
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 && fi.Mode().Perm()&^may != 0 {
			err = os.Chmod(path, fi.Mode().Perm()&may)
			t.alert(ctx, c, path)
		}
		if err != nil {
			t.Log.Error("a private path cannot be kept private", "path", path, "error", err)
		}
	}
}

func (t *Tiers) alert(ctx context.Context, c *palyra.Call, path string) {
	t.Log.Error("a program opened a private path to others; it was closed again", "path", path, "call", string(c.ID))
	_, err := t.Journal.Record(context.WithoutCancel(ctx), palyra.AlertRaised{
		Reason: palyra.ReasonUnsafePermissions, Principal: c.Proposal.Principal, PeerUID: c.Proposal.PeerUID,
		Method: string(palyra.ToolProcessRun),
	})
	if err != nil {
		t.Log.Error("the alert is not on record", "error", err)
	}
}
