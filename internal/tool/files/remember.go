//go:build unix

package files

import (
	"context"
	"path"

	"golang.org/x/sys/unix"

	"palyra"
)

// remember hands the files that changes are about to replace to the Keeper. The returned function
// is called with whether the changes were made. Where a file cannot be kept, the changes are made
// all the same, and the Keeper has reported it.
func (s *shared) remember(ctx context.Context, r *root, call palyra.CallID, stages []*pendingChange, made []string) func(bool) {
	var ws unix.Stat_t
	if s.cfg.Keeper == nil || len(stages) == 0 || unix.Fstat(r.fd, &ws) != nil {
		return func(bool) {}
	}
	all := make([]Replaced, 0, len(stages)+len(made))
	for _, rel := range made {
		var st unix.Stat_t
		if r.statDir(rel, &st) != nil {
			return func(bool) {}
		}
		all = append(all, Replaced{Path: rel, Now: &palyra.PathState{Kind: palyra.PathDirectory, Mode: uint32(st.Mode) & 0o7777 &^ 0o4000}})
	}
	for _, st := range stages {
		all = append(all, st.replaced())
	}
	return s.cfg.Keeper.Remember(ctx, call, r.path, int64(ws.Uid), int64(ws.Gid), all)
}

// statDir returns the status of a directory of the workspace.
func (r *root) statDir(rel string, st *unix.Stat_t) error {
	d, err := r.dir(path.Clean(rel))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return unix.Fstat(int(d.Fd()), st)
}

// replaced is a change in the form that the Keeper gets.
func (c change) replaced() Replaced {
	out := Replaced{Path: c.path}
	if c.before.exists {
		out.Before = c.before.content
		out.Was = &palyra.PathState{Kind: palyra.PathFile, Mode: c.before.mode & 0o777, Size: int64(len(c.before.content)), Digest: c.before.digest}
	}
	if !c.remove {
		out.Now = &palyra.PathState{Kind: palyra.PathFile, Mode: c.mode & 0o777, Size: int64(len(c.after)), Digest: palyra.SumBytes(c.after)}
	}
	return out
}
