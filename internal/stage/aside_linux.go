package stage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/quarantine"
)

// file is one that a run made or changed.
type file struct {
	path string
	id   beneath.Ident
}

// collide is a path of the run's where somebody else did something: what the run left there is read all the same.
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
	r.files = append(r.files, file{p, beneath.IdentOf(st)})
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

// away moves what was taken to the quarantine. What cannot be moved stays in the stage, and goes with it.
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

// SetAside moves what Keep left of a run's files to a quarantine: to the directory of that name below it, which is
// the daemon's alone. They are there in boxes, and the index says where each was to go. It returns how many there
// are. Where somebody else changed the same files, nothing of the run's is lost so, up to most bytes (0: all) of
// what the quarantine has under that name; lost are those beyond.
func (g *Stage) SetAside(dir, name string, most int64) (n int, lost []quarantine.Item, err error) {
	to, err := quarantine.OpenShelf(dir, name, g.workspace, most)
	if err != nil {
		return 0, nil, fmt.Errorf("stage: set aside: %w", err)
	}
	defer to.Close()
	upper, err := g.open(Upper)
	if err != nil {
		return 0, nil, fmt.Errorf("stage: set aside: %w", err)
	}
	defer func() { _ = unix.Close(upper) }()
	for _, f := range g.files { // but for those that were kept
		err := to.Take(upper, f.path, func(st *unix.Stat_t) bool { return beneath.IdentOf(st) == f.id })
		if err != nil {
			return to.Taken, to.Lost, fmt.Errorf("stage: set aside: %s: %w", change.Quoted(f.path), err)
		}
	}
	return to.Taken, to.Lost, nil
}
