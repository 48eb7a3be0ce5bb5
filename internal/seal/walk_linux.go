package seal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/symlink"
	"palyra/internal/trusted"
)

// walker makes a snapshot. Directories are visited by depth, each opened by its path from the
// workspace, so that one descriptor is enough for any tree.
type walker struct {
	ctx        context.Context
	t          *tree
	m          *Matcher
	base       *Snapshot              // earlier snapshot, or nil
	known      map[string]watchedPath // known paths; nil when every path may be there
	out        *Snapshot
	limits     Limits
	start      stamp // time of the file systems' clock
	sweeps     bool  // nothing may be missed: errors are returned at the end
	full       bool  // every directory is read
	over       bool  // the limits were reached, and the rest was not looked at
	errs       []error
	seen       int // entries
	count      int // entries that matter
	bytes      int
	moved      int  // directories that were not where they had been seen
	links      int  // links noted
	some       bool // a node_modules was seen
	quarantine *quarantiner
	early      int               // links moved away during the walk
	states     map[string][]byte // git's unfinished states, as a sweep judged them
	locks      []lock
	closed     *symlink.Set // made at its first use

	buf   []byte // of directory entries
	fold  []byte
	names []byte // of the directory being read, end to end
	found []found
	heads map[int32]string // the HEAD of repositories
	asked int32            // the directory of which a file was checked, plus one
}

// found is an entry of the directory being read.
type found struct {
	end int // of its name in names
	typ byte
}

func newWalker(ctx context.Context, t *tree, m *Matcher, base *Snapshot, workspace string, l Limits) *walker {
	now := time.Now()
	w := &walker{
		ctx: ctx, t: t, m: m, base: base, limits: l, start: fileClock(), heads: map[int32]string{},
		out: &Snapshot{workspace: workspace, root: t.id, limits: l, match: m, began: now},
	}
	if base != nil {
		w.out.dirs = make([]node, 0, len(base.dirs)+16)
		w.out.entries = make([]watchedPath, 0, len(base.entries)+16)
	}
	return w
}

// buffer is for one list of entries, or one link. Most looks need none.
func (w *walker) buffer() []byte {
	if w.buf == nil {
		w.buf = make([]byte, 32<<10)
	}
	return w.buf
}

// walk makes the snapshot. Directories that had to be opened by force are shut again when shut is called.
func (w *walker) walk() error {
	root := node{base: -1, state: w.m.Root(w.out.start)}
	if w.base != nil && len(w.base.dirs) > 0 {
		st, err := w.t.look(w.t.fd, "")
		if err != nil {
			return fmt.Errorf("seal: %w", err)
		}
		w.recognise(&root, 0, st)
	}
	w.out.dirs = append(w.out.dirs, root)
	for i := int32(0); int(i) < len(w.out.dirs) && !w.over; i++ {
		if i&0xff == 0 && w.ctx.Err() != nil {
			return fmt.Errorf("seal: %w", context.Cause(w.ctx))
		}
		if err := w.visit(i); err != nil && !w.later(err) {
			return err
		}
	}
	return nil
}

// maxErrors is how many errors of one sweep are returned.
const maxErrors = 8

// later reports whether a sweep goes on after an error, because there may be sealed paths
// elsewhere. The error is returned at the end.
func (w *walker) later(err error) bool {
	if !w.sweeps || w.ctx.Err() != nil {
		return false
	}
	if len(w.errs) < maxErrors {
		w.errs = append(w.errs, err)
	}
	return true
}

// recognise notes that a directory is one of the snapshot before, and whether its entries must be the same.
func (w *walker) recognise(n *node, base int32, st status) {
	b := &w.base.dirs[base]
	if b.id != st.id || st.mnt != w.t.mnt {
		return
	}
	n.base = base
	const like = inside | modules | held
	if !w.full && b.ctime == st.ctime && b.flags&(racy|gone) == 0 && b.state == n.state && b.flags&like == n.flags&like {
		n.flags |= same | b.flags&repo
		n.id, n.ctime = st.id, st.ctime
	}
}

func (w *walker) visit(i int32) error {
	child, entries := len(w.out.dirs), len(w.out.entries)
	var err error
	if n := w.out.dirs[i]; n.flags&same == 0 {
		err = w.read(i, w.out.path(i))
	} else {
		err = w.keep(i, w.base.dirs[n.base])
	}
	n := &w.out.dirs[i]
	n.child, n.kid = int32(child), int32(len(w.out.dirs)-child)
	n.entry, n.n = int32(entries), int32(len(w.out.entries)-entries)
	return err
}

// keep takes over an unchanged directory.
func (w *walker) keep(i int32, b node) error {
	w.out.dirs[i].many, w.out.dirs[i].linked = b.many, b.linked
	if b.linked {
		w.out.sharing++
		if w.out.shared == "" {
			w.out.shared = w.base.shared
		}
	}
	if w.known == nil { // a scan counts unread entries like read ones
		w.count += int(b.many)
		if err := w.bound(""); err != nil {
			return err
		}
	}
	if b.kid == 0 && b.n == 0 {
		return nil
	}
	return w.reuse(i, w.out.path(i), b)
}

// reuse takes over the entries of an unchanged directory, and checks only the watched ones again.
func (w *walker) reuse(i int32, path string, b node) error {
	fd, err := w.t.open(path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return w.read(i, path) // read handles the error
	}
	defer unix.Close(fd)
	for _, e := range w.base.entries[b.entry : b.entry+b.n] {
		if err := w.again(i, fd, path, e); err != nil {
			return err
		}
	}
	for j := b.child; j < b.child+b.kid; j++ {
		c := w.base.dirs[j]
		st, err := w.t.look(fd, c.name)
		if errors.Is(err, unix.ENOENT) || (err == nil && !st.dir()) {
			w.moved++
			continue
		}
		if err != nil {
			return fmt.Errorf("seal: directory %q: %w", join(path, c.name), err)
		}
		if w.bytes += len(c.name); w.bytes > maxNameBytes && w.known == nil {
			return tooLong()
		}
		n := node{parent: i, name: c.name, state: c.state, base: -1, flags: c.flags & (inside | held)}
		if c.flags&inside == 0 {
			w.fold = trusted.Fold(w.fold[:0], c.name)
			n.flags |= w.modules(w.out.dirs[i].flags, join(path, c.name))
		}
		w.recognise(&n, j, st)
		w.out.dirs = append(w.out.dirs, n)
	}
	return nil
}

// again checks an entry that was there before.
func (w *walker) again(i int32, dir int, path string, e watchedPath) error {
	if e.kind == link { // another link in its place would show in the directory
		e.dir = i
		w.links++
		w.out.entries = append(w.out.entries, e)
		return nil
	}
	name := ""
	if e.path != own(path) {
		name = e.path[len(e.path)-baseLen(e.path):]
	}
	st, err := w.t.look(dir, name)
	if errors.Is(err, unix.ENOENT) {
		w.moved++
		return nil
	}
	if err != nil {
		return fmt.Errorf("seal: %q: %w", e.path, err)
	}
	k := e.kind
	if k == kept && !st.dir() {
		k = sealed
	}
	w.note(i, e.path, k, st)
	if st.mode&unix.S_IFMT == unix.S_IFLNK {
		w.target(dir, name)
	}
	return nil
}

// note adds an entry.
func (w *walker) note(dir int32, path string, k kind, st status) {
	w.out.entries = append(w.out.entries, watchedPath{
		path: path, dir: dir, kind: k, id: st.id, mode: st.mode, links: st.links, size: st.size, mtime: st.mtime, ctime: st.ctime, born: st.born,
	})
}

// fresh reports whether path is one that must not be there.
func (w *walker) fresh(path string) bool {
	if w.known == nil {
		return false
	}
	_, ok := w.known[path]
	return !ok
}

// read looks at all entries of a directory.
func (w *walker) read(i int32, path string) error {
	fd, st, forced, err := w.openDir(i, path)
	n := &w.out.dirs[i]
	n.flags &^= same
	switch {
	case errors.Is(err, unix.EXDEV):
		return w.foreign(i, path, mount)
	case errors.Is(err, unix.EACCES) && i != 0:
		return w.foreign(i, path, shut)
	case (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) && i != 0:
		n.flags |= gone
		w.moved++
		return nil
	case err != nil:
		return fmt.Errorf("seal: directory %q: %w", path, err)
	}
	defer unix.Close(fd)
	if n.base >= 0 && w.base.dirs[n.base].id != st.id {
		n.base = -1
	}
	n.id, n.ctime = st.id, st.ctime
	if forced || !w.settled(st.ctime) {
		n.flags |= racy
	}
	if err := w.gather(fd, n, path); err != nil {
		if i == 0 && w.sweeps && errors.Is(err, unix.ENOENT) {
			return errDeleted
		}
		return err
	}
	return w.sort(i, fd, path, st)
}

// foreign notes a directory that is not searched.
func (w *walker) foreign(i int32, path string, k kind) error {
	n := &w.out.dirs[i]
	n.flags |= racy
	parent, err := w.t.open(w.out.path(n.parent), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("seal: directory above %q: %w", path, err)
	}
	defer unix.Close(parent)
	st, err := w.t.look(parent, n.name)
	if err != nil {
		return denied("what is mounted at %q in the workspace cannot be looked at, and so cannot be sealed", path).
			WithRemedy("unmount it, or use a workspace without it").WithCause(err)
	}
	n.id = st.id
	if n.flags&(inside|held) == 0 { // otherwise it is sealed already
		w.note(i, path, k, st)
	}
	return nil
}

// sort decides about all gathered entries.
func (w *walker) sort(i int32, fd int, path string, st status) error {
	n := &w.out.dirs[i]
	state := n.state
	if head, ok := w.repository(); ok && n.flags&inside == 0 {
		n.flags |= repo
		var keeps bool
		if state, keeps = w.m.Into(state); keeps && n.flags&held == 0 {
			w.note(i, own(path), kept, st)
			w.heads[i] = head
			if w.fresh(own(path)) && w.isNew(i) {
				return nil
			}
		}
	}
	var kids map[string]int32
	if base := n.base; base >= 0 && len(w.found) > 0 {
		kids = w.kids(base)
	}
	start := 0
	for _, f := range w.found {
		name := w.names[start:f.end]
		start = f.end
		if err := w.take(at{i, fd, path, state, kids}, name, f.typ); err != nil {
			return err
		}
	}
	return nil
}
