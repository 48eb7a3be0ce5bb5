//go:build unix

package files

import (
	"context"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
	"palyra/internal/tool"
)

// lasting says in a plan that its changes could not be undone later, or what else could not be because of them. It does
// not matter whether they change anything: that would tell what is in a file.
func (s *shared) lasting(env tool.Env, p *palyra.Plan, changes []change) {
	if s.cfg.UndoStore == nil || p.Staging.Staged() {
		return
	}
	if why := s.cfg.UndoStore.Lasting(replacedBy(changes)); why != "" {
		p.Lasting, p.Detail.Notes = true, append(p.Detail.Notes, why)
	}
	for _, c := range changes {
		if why := c.otherNames(); env.Check && why != "" {
			p.Lasting, p.Detail.Notes = true, append(p.Detail.Notes, why)
		}
	}
}

// otherNames says why a change that an agent makes by tools of its own, in place perhaps, is not taken back by an undo.
func (c change) otherNames() string {
	switch name := quoteUnlessPlain(c.path); {
	case c.before.exists && c.before.links > 1:
		return name + " has other names: written in place all of them change, and an undo is of this one"
	case c.before.mounted:
		return name + " lies on something that is mounted there: it may be a directory elsewhere"
	}
	return ""
}

// replacedBy is what changes replace, with the directories that are made for them.
func replacedBy(changes []change) (all []Replaced) {
	made := map[string]bool{}
	for _, c := range changes {
		for dir := path.Dir(c.path); c.before.missing != "" && subpath.Within(c.before.missing, dir) && !made[dir]; dir = path.Dir(dir) {
			made[dir] = true
			all = append(all, Replaced{Path: dir, Now: &palyra.PathState{Kind: palyra.PathDirectory}, AnyMode: true})
		}
		one := c.replaced()
		one.AnyMode = !c.before.exists
		all = append(all, one)
	}
	return all
}

// foresee hands the UndoStore what the caller is about to replace by tools of its own. Nothing changes here.
func (s *shared) foresee(ctx context.Context, r *root, env tool.Env, changes []change, lose bool) error {
	var ws unix.Stat_t
	changes = slices.DeleteFunc(slices.Clone(changes), change.unchanged)
	if len(changes) == 0 || s.cfg.UndoStore == nil {
		return nil
	}
	if err := unix.Fstat(r.fd, &ws); err != nil {
		return err
	}
	kept, err := s.cfg.UndoStore.Remember(ctx, env.Call, r.path, int64(ws.Uid), int64(ws.Gid), replacedBy(changes), lose)
	if err != nil {
		return err
	}
	env.Foreseen(kept)
	return nil
}

// remember hands the files that changes are about to replace to the UndoStore. The returned function is called with
// whether the changes were made, and then reports them. Where a file cannot be kept, no change may be made.
func (s *shared) remember(
	ctx context.Context, r *root, env tool.Env, stages []*pendingChange, made []string, lose bool,
) (remembered func(bool), err error) {
	var ws unix.Stat_t
	if len(stages) == 0 {
		return func(bool) {}, nil
	}
	if err := unix.Fstat(r.fd, &ws); err != nil {
		return nil, err
	}
	all := make([]Replaced, 0, len(stages)+len(made))
	for _, rel := range made {
		var st unix.Stat_t
		if err := r.statDir(rel, &st); err != nil {
			return nil, err
		}
		all = append(all, Replaced{Path: rel, Now: &palyra.PathState{Kind: palyra.PathDirectory, Mode: uint32(st.Mode) & 0o7777 &^ 0o4000}})
	}
	for _, st := range stages {
		all = append(all, st.replaced())
	}
	kept := func(bool) {}
	if s.cfg.UndoStore != nil && tool.LayerOf(ctx) == nil { // what is on a stage can be dropped
		if kept, err = s.cfg.UndoStore.Remember(ctx, env.Call, r.path, int64(ws.Uid), int64(ws.Gid), all, lose); err != nil {
			return nil, err
		}
	}
	return func(changed bool) {
		kept(changed)
		if !changed || env.Changed == nil {
			return
		}
		list := make([]palyra.Change, len(all))
		for i, c := range all {
			list[i] = palyra.Change{Path: palyra.TextOfPath(c.Path), Was: c.Was, Now: c.Now}
		}
		env.Changed(list)
	}, nil
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

// replaced is a change in the form that the UndoStore gets.
func (c change) replaced() Replaced {
	out := Replaced{Path: c.path}
	if c.before.exists {
		out.Before = c.before.content
		out.Was = &palyra.PathState{
			Kind: palyra.PathFile, Mode: c.before.mode & 0o777, Size: int64(len(c.before.content)),
			Digest: c.before.digest,
		}
	}
	if !c.remove {
		out.Now = &palyra.PathState{Kind: palyra.PathFile, Mode: c.mode & 0o777, Size: int64(len(c.after)), Digest: palyra.SumBytes(c.after)}
	}
	return out
}

// Foresees implements tool.Foreseer, each for its tool.
func (writer) Foresees()  {}
func (editor) Foresees()  {}
func (patcher) Foresees() {}
