package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/quarantine"
	"palyra/internal/subpath"
)

// quarantiner moves the finds of a sweep into quarantine. Its directory is made with the first find.
type quarantiner struct {
	t      *tree
	path   string // path of the daemon's own quarantine
	call   string
	home   *quarantineDir // the call's directory in there
	inside *quarantineDir // the call's directory in the workspace, for files that cannot be moved to another file system
	dir    ident          // the .palyra that we made for it
	made   []string
	more   int

	workspace string
	most      int64 // most bytes of a call's items; 0: no limit

	restored map[string]bool // restored paths
	out      map[string]bool // remnants, which stay and are reported
}

// stay notes a remnant.
func (p *quarantiner) stay(kind palyra.RemnantKind, path string) {
	if len(p.out) < maxMade {
		p.out[stays(kind, path)] = true
	}
}

// quarantineDir is one directory of a quarantine.
type quarantineDir struct {
	fd     int
	n      int // number of items so far
	own    bool
	box    *quarantine.Box // box of the item that was taken last, until it is closed
	budget quarantine.Budget
	as     func(func() error) error // runs its argument as the owner of the directory
}

func newQuarantiner(t *tree, path string, call palyra.CallID) (*quarantiner, error) {
	if !subpath.PlainID(string(call)) {
		return nil, fmt.Errorf("seal: quarantine: %q is no id of a call", call)
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("seal: quarantine: directory %q is not absolute", path)
	}
	return &quarantiner{t: t, path: path, call: string(call), restored: map[string]bool{}, out: map[string]bool{}}, nil
}

func (p *quarantiner) close() {
	for _, d := range []*quarantineDir{p.home, p.inside} {
		if d != nil {
			_ = unix.Close(d.fd)
		}
	}
}

// ours reports whether an entry is the directory that the quarantine itself is in.
func (p *quarantiner) ours(e watchedPath) bool {
	return p.inside != nil && e.path == ownDir && e.id == p.dir
}

// put moves an entry out of its directory.
func (p *quarantiner) put(w *walker, parent int32, name string, e watchedPath) error {
	at, err := p.atHome()
	if err != nil {
		return err
	}
	err = p.move(w, parent, name, e, at)
	if errors.Is(err, unix.EXDEV) {
		if at, err = p.atWorkspace(w); err != nil {
			return err
		}
		if e.path == ownDir { // moved to make room
			return nil
		}
		err = p.move(w, parent, name, e, at)
	}
	return err
}

// atHome makes and opens the quarantine in the daemon's own directory.
func (p *quarantiner) atHome() (*quarantineDir, error) {
	if p.home != nil {
		return p.home, nil
	}
	fd, err := unix.Open(p.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	defer unix.Close(fd)
	st, err := statx(fd, "", unix.AT_STATX_SYNC_AS_STAT)
	if err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	if int(st.uid) != p.t.euid || st.mode&0o022 != 0 {
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "the quarantine %q is not the daemon's alone", p.path).
			WithRemedy("remove it; it is made again")
	}
	sub, err := subdir(fd, p.call)
	if err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	p.home = &quarantineDir{fd: sub, as: func(f func() error) error { return f() }}
	if err := p.known(p.home, filepath.Join(p.path, p.call)); err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	return p.home, nil
}

// subdir opens a directory, and makes it if it is missing.
func subdir(dir int, name string) (int, error) {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// atWorkspace makes and opens the quarantine in the workspace. Its directories are made with the
// rights of the workspace's owner, to whom they belong.
func (p *quarantiner) atWorkspace(w *walker) (*quarantineDir, error) {
	if p.inside != nil {
		return p.inside, nil
	}
	was, known := w.known[ownDir]
	if len(w.out.quarantines) > 0 { // a run under way could put another one there
		st, err := p.t.look(p.t.fd, ownDir)
		known = known && err == nil && st.id == was.id
	}
	aside, err := "", w.writable(0, "")
	if err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	if !known {
		if aside, err = p.setAside(); err != nil {
			return nil, err
		}
	}
	var fd int
	err = p.t.asOwner(func() (err error) { fd, err = p.build(); return err })
	if err != nil {
		return nil, denied("what has to be moved away has no place: %s cannot be made in the workspace", filepath.Join(ownDir, quarantineName)).
			WithRemedy("let the owner of the workspace write to it").WithCause(err)
	}
	p.inside = &quarantineDir{fd: fd, own: true, as: p.t.asOwner}
	if err := p.t.asOwner(func() error { return p.known(p.inside, descriptor(fd)) }); err != nil {
		return nil, fmt.Errorf("seal: quarantine: %w", err)
	}
	if known && was.id != p.dir {
		return nil, denied("%q in the workspace is another directory than before the run", ownDir)
	}
	if aside == "" {
		return p.inside, nil
	}
	return p.inside, p.move(w, 0, aside, watchedPath{path: ownDir, mode: unix.S_IFDIR}, p.inside)
}

// setAside moves away a file or directory of the run's that has the name of ours.
func (p *quarantiner) setAside() (string, error) {
	aside := ownDir + "-" + rand.Text()
	err := unix.Renameat2(p.t.fd, ownDir, p.t.fd, aside, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("seal: quarantine: %w", err)
	}
	return aside, nil
}

// build makes the directories of the quarantine in the workspace.
func (p *quarantiner) build() (int, error) {
	path, fd := "", -1
	for i, name := range []string{ownDir, quarantineName, p.call} {
		up, err := p.t.open(path, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		err = unix.Mkdirat(up, name, 0o700)
		_ = unix.Close(up)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		path = join(path, name)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if fd, err = p.t.open(path, unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return -1, err
		}
		if i == 0 {
			st, err := p.t.look(fd, "")
			if err != nil {
				return -1, errors.Join(err, unix.Close(fd))
			}
			p.dir = st.id
		}
	}
	return fd, nil
}

// move renames name in a directory of the workspace to a neutral name in at. It is no error when it is gone.
func (p *quarantiner) move(w *walker, parent int32, name string, e watchedPath, at *quarantineDir) error {
	from := w.out.path(parent)
	fd, err := p.t.open(from, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("move %q: %w", e.path, err)
	}
	defer unix.Close(fd)
	item, err := at.take(fd, name)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		if err := errors.Join(w.unlock(parent, from), w.unlockItem(fd, name)); err != nil {
			return fmt.Errorf("move %q: %w", e.path, err)
		}
		item, err = at.take(fd, name)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("move %q: %w", e.path, err)
	}
	p.note(e.path)
	if err := p.store(at, item, e); err != nil {
		return fmt.Errorf("index of %q: %w", e.path, err)
	}
	return nil
}

// unlockItem lets the owner move a directory, which writes to it.
func (w *walker) unlockItem(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := w.t.look(fd, "")
	if err != nil || !st.dir() || st.mnt != w.t.mnt || (w.t.euid != 0 && int(st.uid) != w.t.euid) {
		return err
	}
	return chmod(fd, st.mode|0o700)
}

// note adds a path to the result.
func (p *quarantiner) note(path string) {
	if len(p.made) >= maxMade {
		p.more++
		return
	}
	p.made = append(p.made, path)
}

// gone returns the paths that were not restored.
func (p *quarantiner) gone() []string {
	return slices.DeleteFunc(slices.Clone(p.made), func(path string) bool { return p.restored[path] })
}

// result lists the finds of the sweep and the changes.
func (p *quarantiner) result(changes []string) []string {
	out := append(p.made, changes[:min(len(changes), maxMade)]...)
	if more := p.more + max(len(changes)-maxMade, 0); more > 0 {
		out = append(out, fmt.Sprintf("%s%d", morePrefix, more))
	}
	return append(out, slices.Sorted(maps.Keys(p.out))...)
}

// write adds a line to the index.
func (p *quarantiner) write(at *quarantineDir, i quarantine.Item) error {
	line, err := i.Line()
	if err != nil {
		return err
	}
	add := func() error {
		fd, err := unix.Openat(at.fd, quarantine.IndexName,
			unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), quarantine.IndexName)
		_, err = f.Write(line)
		return errors.Join(err, f.Close())
	}
	return at.as(add)
}
