package seal

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra/internal/seal/sealname"
	"palyra/internal/subpath"
	"palyra/internal/trusted"
)

// at is the directory whose entries are looked at.
type at struct {
	dir   int32
	fd    int
	path  string
	state int32
	kids  map[string]int32 // its directories in the snapshot before
}

// take decides about one entry of a directory.
func (w *walker) take(a at, name []byte, typ byte) error {
	n := w.out.dirs[a.dir]
	if n.flags&inside != 0 {
		return w.takeInside(a, string(name), typ)
	}
	w.fold = trusted.Fold(w.fold[:0], name)
	what, state := w.m.Next(a.state, w.fold, n.flags&modules != 0)
	if what == sealname.Free && typ != unix.DT_DIR && typ != unix.DT_UNKNOWN && typ != unix.DT_LNK {
		w.sample(a, name, typ)
		if typ != unix.DT_REG || n.flags&modules != 0 || w.out.old || !heeded[string(w.fold)] {
			return nil
		}
		if st, err := w.t.look(a.fd, string(name)); err == nil {
			w.note(a.dir, join(a.path, string(name)), noted, st)
		}
		return nil
	}
	going := what == sealname.Free && !w.out.old && n.flags&repo != 0 && w.m.Repositories() && inMiddle(w.fold)
	if n.flags&repo != 0 && sealname.InStore(w.fold) {
		state = w.m.Stored(state)
	}
	path := join(a.path, string(name))
	dir := node{parent: a.dir, name: string(name), state: state, flags: w.modules(n.flags, path), base: -1}
	if _, ok := a.kids[dir.name]; !ok && what == sealname.Free && typ == unix.DT_DIR && !going {
		return w.add(a, path, dir, status{})
	}
	st, err := w.t.look(a.fd, dir.name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // gone meanwhile; a move shows in the directory
	case err != nil:
		return w.unseen(a, string(name), what, err)
	}
	if st.mode&unix.S_IFMT == unix.S_IFLNK {
		return w.takeLink(a, path, what != sealname.Free || state != 0 && !w.out.old || going, st)
	}
	if going && st.dir() {
		w.note(a.dir, path, midway, st)
	}
	if what != sealname.Free {
		k := sealed
		if what == sealname.Keep && st.dir() {
			k = kept
		}
		w.note(a.dir, path, k, st)
		if w.fresh(path) {
			return nil
		}
		dir.flags |= held
		if k == sealed {
			dir.flags |= inside
		}
	}
	if !st.dir() {
		return nil
	}
	return w.add(a, path, dir, st)
}

// unseen handles an entry without a readable status, such as the root of another user's own mount.
func (w *walker) unseen(a at, name string, what sealname.Hit, err error) error {
	path := join(a.path, name)
	if what == sealname.Free && w.known != nil { // not the run's, which can make no mounts
		return nil
	}
	return denied("%q in the workspace cannot be looked at, and so cannot be sealed", path).
		WithRemedy("if something is mounted there, unmount it; or use a workspace without it").WithCause(err)
}

// takeInside notes a file below a sealed directory: the mount above it protects it, but not a
// second name of it elsewhere.
func (w *walker) takeInside(a at, name string, typ byte) error {
	if w.sweeps && len(w.out.quarantines) > 0 {
		if _, own := subpath.Rel("/"+ownDir, "/"+a.path); own {
			return w.takeQuarantine(a, name)
		}
	}
	if typ != unix.DT_DIR && typ != unix.DT_REG && typ != unix.DT_UNKNOWN {
		return nil
	}
	if a.path == ownDir && name == quarantineName {
		return nil
	}
	st, err := w.t.look(a.fd, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	path := join(a.path, name)
	if err != nil {
		return fmt.Errorf("seal: %q: %w", path, err)
	}
	switch st.mode & unix.S_IFMT {
	case unix.S_IFREG:
		w.note(a.dir, path, inner, st)
	case unix.S_IFDIR:
		return w.add(a, path, node{parent: a.dir, name: name, flags: inside, base: -1}, st)
	}
	return nil
}

func tooLong() error {
	return denied("the names of the directories in the workspace are longer than %d MiB together", maxNameBytes>>20).
		WithRemedy("use a workspace further down")
}

// add queues a directory.
func (w *walker) add(a at, path string, n node, st status) error {
	w.bytes += len(n.name)
	switch {
	case w.bytes > maxNameBytes && w.sweeps:
		w.over = true // looked at in the next pass, if it is still there
	case w.bytes > maxNameBytes:
		return tooLong()
	case len(path) > maxPath:
		if w.known == nil {
			return denied("the directories below %.60q... are nested too deeply to be sealed", path).
				WithRemedy("remove them, or use a workspace further down")
		}
		w.note(a.dir, path, deep, st)
		return nil
	}
	if j, ok := a.kids[n.name]; ok {
		w.recognise(&n, j, st)
	}
	w.out.dirs = append(w.out.dirs, n)
	return nil
}
