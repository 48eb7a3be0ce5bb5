package seal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/gitfile"
	"palyra/internal/seal/owngit"
	"palyra/internal/seal/sealname"
	"palyra/internal/subpath"
)

// A person's own configuration of git holds in every repository, and its paths of hooks and programs can be
// relative to the work tree: core.hooksPath = .githooks in ~/.gitconfig has git run what a run puts there. So it is with
// that of a repository in all its work trees, wherever it lies itself.

// home is the home directory of the workspace's owner, empty where it is not known.
func (t *tree) home() string { return owngit.Home(t.uid) }

// personal returns the references of the owner's own configuration, and the system's. They are read
// once for each look, with the owner's rights: git cannot read more.
func (t *tree) personal() []gitfile.Reference {
	if t.own == nil {
		var out []gitfile.Reference
		_ = t.asOwner(func() error { out = owngit.Personal(t.home()); return nil }) // f returns no error
		t.own = &out
	}
	return *t.own
}

// overdone is what a scan returns for what is too much to be read.
func overdone(err error) error {
	if over := (*owngit.LimitError)(nil); errors.As(err, &over) {
		return unreadable(over.Path, over.Why)
	}
	return err
}

// linked returns the work trees in the workspace that a repository's directory there knows, by the pointers that git
// keeps: its own, when it is the directory of a linked work tree, and those of all that are linked to it.
func (t *tree) linked(s *Snapshot, dir string) (tops []string, err error) {
	dirs, own := []string{dir}, filepath.Join(dir, "worktrees")
	if fd, err := t.open(own, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		names, err := owngit.Names(os.NewFile(uintptr(fd), own))
		if err != nil {
			return nil, overdone(err)
		}
		for _, n := range names {
			dirs = append(dirs, filepath.Join(own, n))
		}
	}
	for _, d := range dirs {
		top, in := subpath.Rel(s.workspace, owngit.Top(filepath.Join(s.workspace, d), t.small(filepath.Join(d, "gitdir"))))
		if in {
			tops = append(tops, top)
		}
	}
	return tops, nil
}

// outside returns the anchors for everything that the configuration of a repository outside refers to, whose work tree
// the workspace is, and what the owner's own one does.
func (t *tree) outside(s *Snapshot) (out []sealname.Anchor, err error) {
	at := s.limits.Repository
	if at.Path == "" {
		return nil, nil
	}
	var refs []gitfile.Reference
	tops := []string{""}
	err = t.asOwner(func() (err error) { // git cannot read more
		refs, err = owngit.References(t.home(), filepath.Join(at.Path, "config"), filepath.Join(at.Path, at.Dir, "config.worktree"))
		if err != nil {
			return err
		}
		all, err := owngit.Worktrees(at.Path)
		for _, a := range all {
			if top, in := subpath.Rel(s.workspace, a); in {
				tops = append(tops, top)
			}
		}
		return err
	})
	if err != nil {
		return nil, overdone(err)
	}
	for _, r := range append(refs, t.personal()...) {
		anchors, _ := t.meant(s, tops, r)
		out = append(out, anchors...)
		if !filepath.IsAbs(r.Path) && !strings.HasPrefix(r.Path, "~/") && r.Path != "" { // some hooks run in the repository
			r.Path = filepath.Join(at.Path, r.Path)
			anchors, _ = t.meant(s, nil, r)
			out = append(out, anchors...)
		}
	}
	return out, nil
}
