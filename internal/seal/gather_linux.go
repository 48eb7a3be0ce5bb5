package seal

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra/internal/dirents"
	"palyra/internal/seal/sealname"
	"palyra/internal/trusted"
)

// errFull ends a listing at the limits of a sweep.
var errFull = errors.New("seal: more than can be looked at in one pass")

// gather lists a directory.
func (w *walker) gather(fd int, n *node, path string) error {
	w.names, w.found = w.names[:0], w.found[:0]
	before := w.seen
	defer func() { n.many = int32(w.seen - before) }()
	state, _ := w.m.Into(n.state) // whether it is a repository is known only at the end
	err := dirents.List(fd, w.buffer(), func(name []byte, typ byte) error {
		if w.seen++; w.seen&0xfff == 0 && w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		if w.sweeps && n.flags&inside == 0 && typ != unix.DT_DIR && typ != unix.DT_UNKNOWN && !w.counts(state, name, typ, n.flags&modules != 0) {
			return nil
		}
		w.count++
		if err := w.bound(path); err != nil {
			return err
		}
		w.names = append(w.names, name...)
		w.found = append(w.found, found{len(w.names), typ})
		return nil
	})
	switch {
	case errors.Is(err, errFull):
		w.over = true
		n.flags |= racy
	case err != nil:
		return fmt.Errorf("seal: directory %q: %w", path, err)
	}
	return nil
}

// bound returns an error at the limits. A sweep then moves away what it has found and looks again.
func (w *walker) bound(path string) error {
	many, long := w.count > w.limits.Entries, len(w.names) > maxListing
	switch {
	case (many || long) && w.sweeps:
		return errFull
	case many:
		return denied("the workspace has more than %d files and directories, too many to look for sealed paths", w.limits.Entries).
			WithRemedy("use a workspace further down, or raise the limit of the sandbox")
	case long:
		return denied("a directory has more names than can be looked through").WithRemedy("remove what is in %q", path)
	}
	return nil
}

// counts reports whether a file of the name matters to a sweep. The run may have made any number of others.
func (w *walker) counts(state int32, name []byte, typ byte, below bool) bool {
	w.fold = trusted.Fold(w.fold[:0], name)
	if what, _ := w.m.Next(state, w.fold, below); what != sealname.Free || typ == unix.DT_LNK {
		return true
	}
	if !below && typ == unix.DT_REG && heeded[string(w.fold)] {
		return true
	}
	switch string(w.fold) {
	case "head", "objects", "refs", "commondir":
		return true
	}
	return false
}

// newDir reports whether a directory is known to have been made by the run, or during it, while its parent was not.
func (w *walker) newDir(i int32) bool {
	n := w.out.dirs[i]
	if !w.isNew(i) || n.flags&(inside|held) != 0 || w.isNew(n.parent) {
		return false
	}
	base := w.out.dirs[n.parent].base
	if base < 0 {
		return false // the workspace itself is another directory than before
	}
	b := w.base.dirs[base]
	for j := b.child; j < b.child+b.kid; j++ {
		if w.base.dirs[j].name == n.name {
			return false // its inode number can change where it lies on a lower layer
		}
	}
	return true
}

// reduce moves away whole directories that the run made, where it made more than can be looked at.
// It returns their number.
func (w *walker) reduce(p *quarantiner) (int, error) {
	n := 0
	for i := range w.out.dirs {
		if !w.newDir(int32(i)) {
			continue
		}
		d := w.out.dirs[i]
		n++
		if err := p.put(w, d.parent, d.name, watchedPath{
			path: w.out.path(int32(i)), dir: d.parent, kind: deep,
			mode: unix.S_IFDIR,
		}); err != nil && !w.later(err) {
			return n, err
		}
	}
	return n, nil
}
