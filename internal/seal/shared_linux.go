package seal

import (
	"golang.org/x/sys/unix"

	"palyra"
)

// Package managers link files from a store that all projects share, and git links objects from one clone to the
// next. A run that writes such a file in place writes outside its workspace. To check every file would cost more
// than the rest of a look; whole packages are linked, so one file of each directory is enough.

// sample checks the first plain file of a directory, in a look before a run only: links that a run
// makes within its workspace lead nowhere else.
func (w *walker) sample(a at, name []byte, typ byte) {
	if w.known != nil || typ != unix.DT_REG || w.asked == a.dir+1 {
		return
	}
	w.asked = a.dir + 1
	st, err := w.t.look(a.fd, string(name))
	if err != nil || st.links < 2 || st.mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	w.out.dirs[a.dir].linked = true
	if w.out.sharing++; w.out.shared == "" {
		w.out.shared = join(a.path, string(name))
	}
}

// Shared returns a file of the workspace that had a second name, perhaps outside, when s was made,
// and how many further directories have such files. One file of each directory was checked.
func (s *Snapshot) Shared() (palyra.Remnant, bool) {
	if s.sharing == 0 {
		return palyra.Remnant{}, false
	}
	return palyra.Remnant{Kind: palyra.RemnantLinked, Path: s.shared, More: int64(s.sharing - 1)}, true
}
