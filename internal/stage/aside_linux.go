package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/quarantine"
)

// file is one that a run made or changed.
type file struct {
	path string
	id   ident
}

// collide is a path of the run's where somebody else did something: what the run
// left there is read all the same.
func (r *reader) collide(p string, st *unix.Stat_t, at scope) error {
	r.conflict(p)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if _, err := r.unlock(p, st); err != nil {
			return err
		}
		err := r.dir(p, scope{fresh: true, sealed: at.sealed})
		if errors.Is(err, errRepository) {
			r.take(p, st)
			return nil
		}
		return err
	case unix.S_IFREG, unix.S_IFLNK:
		if r.unchanged(p, st) {
			return nil
		}
		return r.note(p, st)
	}
	return nil
}

// note remembers a file of the run's.
func (r *reader) note(p string, st *unix.Stat_t) error {
	if r.bytes += st.Blocks * 512; r.bytes > r.of.limits.Bytes {
		return tooMuch(r.of.limits.Bytes)
	}
	r.files = append(r.files, file{p, identOf(st)})
	return nil
}

// taken is an entry of the stage that goes to the quarantine.
type taken struct {
	path string
	mode uint32
}

// errRepository: what was read is a new directory that git takes for a repository.
var errRepository = errors.New("stage: a repository")

// repository reports whether entries are those of one.
func (r *reader) repository(entries []dirEntry) bool {
	var names []string
	for _, e := range entries {
		if !(e.st.Mode&unix.S_IFMT == unix.S_IFCHR && e.st.Rdev == 0) {
			names = append(names, e.name)
		}
	}
	return r.quarantine.Repository(names)
}

// take leaves an entry to the quarantine.
func (r *reader) take(p string, st *unix.Stat_t) { r.taken = append(r.taken, taken{p, st.Mode}) }

// away moves what was taken to the quarantine. What cannot be moved stays in the stage, and
// goes with it.
func (r *reader) away(err error) error {
	if err != nil {
		return err
	}
	for _, t := range r.taken {
		err := beneath.InParent(r.upper, t.path, func(dir int, name string) error { return r.quarantine.Take(dir, name, t.path, t.mode) })
		if err != nil {
			r.refuse(t.path, sealedPath)
			r.firmly[t.path] = firm{sealed: true}
			r.of.log.Warn("a sealed path that a run made is not in the quarantine, but gone", "workspace", r.workspace, "err", err)
		}
	}
	return nil
}

// SetAside moves what Keep left of a run's files to a quarantine: to the directory of that
// name below it, which is the daemon's alone. They are there in boxes, and the index
// says where each was to go. It returns how many there are. Where somebody else changed
// the same files, nothing of the run's is lost so, up to most bytes (0: all) of what the
// quarantine has under that name; lost are those beyond.
func (g *Stage) SetAside(dir, name string, most int64) (n int, lost []quarantine.Item, err error) {
	if !quarantine.PlainID(name) {
		return 0, nil, fmt.Errorf("stage: set aside: %q is no name", name)
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("stage: set aside: %w", err)
	}
	defer func() { _ = unix.Close(top) }()
	upper, err := g.open(Upper)
	if err != nil {
		return 0, nil, fmt.Errorf("stage: set aside: %w", err)
	}
	defer func() { _ = unix.Close(upper) }()
	a := asideDir{top: top, name: name, upper: upper, workspace: g.workspace}
	a.budget = quarantine.Budget{Most: most, Used: quarantine.Used(filepath.Join(dir, name))}
	defer a.close()
	for _, f := range g.files {
		if err := a.move(f); err != nil {
			return a.n, a.lost, fmt.Errorf("stage: set aside: %s: %w", quoted(f.path), err)
		}
	}
	return a.n, a.lost, nil
}

// asideDir is a directory of a quarantine, made with the first file.
type asideDir struct {
	top, upper int
	name       string
	workspace  string
	budget     quarantine.Budget
	to         *os.File
	index      *os.File
	taken, n   int // boxes, and those with something in it
	lost       []quarantine.Item
}

func (a *asideDir) close() {
	for _, f := range []*os.File{a.to, a.index} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (a *asideDir) open() error {
	if a.to != nil {
		return nil
	}
	if err := unix.Mkdirat(a.top, a.name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := unix.Openat(a.top, a.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	a.to = os.NewFile(uintptr(fd), a.name)
	fd, err = unix.Openat(fd, quarantine.IndexName, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	a.index = os.NewFile(uintptr(fd), quarantine.IndexName)
	return quarantine.NoteWorkspace(int(a.to.Fd()), a.workspace)
}

// move takes one file along, unless it was kept.
func (a *asideDir) move(f file) error {
	return beneath.InParent(a.upper, f.path, func(from int, name string) error {
		st, missing, err := beneath.LookAt(from, name)
		if err != nil || missing || identOf(&st) != f.id {
			return err
		}
		if err := a.open(); err != nil {
			return err
		}
		i := quarantine.Item{Item: fmt.Sprintf("run-%06d", a.taken+1), Path: f.path, Mode: st.Mode}
		box, err := quarantine.NewBox(int(a.to.Fd()), i.Item)
		if err != nil {
			return err
		}
		a.taken++
		err = box.Put(from, name)
		if errors.Is(err, unix.EXDEV) {
			err = beneath.CopyFile(from, name, box.Descriptor(), quarantine.ItemName, &st)
		}
		if err != nil {
			return errors.Join(err, box.Shut())
		}
		if a.budget.Weigh(box, &i) {
			a.lost = append(a.lost, i)
		} else {
			a.n++
		}
		return errors.Join(a.write(i), box.Shut())
	})
}

// write adds a line to the index.
func (a *asideDir) write(i quarantine.Item) error {
	line, err := i.Line()
	if err != nil {
		return err
	}
	_, err = a.index.Write(line)
	return err
}
