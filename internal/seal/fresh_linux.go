package seal

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/trusted"
)

// Fresh judges paths that were not in the workspace, before they are put there, and moves the
// sealed ones into the quarantine of a call. It leaves to Sweep what only the whole workspace tells
// (links that lead on, a directory that becomes a repository).
type Fresh struct {
	match      *Matcher
	root       Spot
	repos      map[string]bool
	spots      map[string]Spot // of directories
	quarantine *quarantiner
}

// Fresh returns a Fresh that judges by the snapshot. It is for one goroutine, and must be closed.
func (s *Snapshot) Fresh(into string, call palyra.CallID) (*Fresh, error) {
	p, err := newQuarantiner(&tree{fd: -1, euid: os.Geteuid()}, into, call)
	if err != nil {
		return nil, err
	}
	m := s.match.Clone()
	f := &Fresh{match: m, root: m.Within(s.start), repos: map[string]bool{}, spots: map[string]Spot{}, quarantine: p.bounded(s)}
	for i := range s.dirs {
		if s.dirs[i].flags&repo != 0 {
			f.repos[s.path(int32(i))] = true
		}
	}
	return f, nil
}

// Close closes the quarantine.
func (f *Fresh) Close() { f.quarantine.close() }

// Made lists the quarantined paths, as Sweep does.
func (f *Fresh) Made() []string { return f.quarantine.result(nil) }

// New reports whether the name of a new path seals it.
func (f *Fresh) New(path string) bool {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	_, seals, keeps := f.match.Step(f.spot(dir), name)
	return seals || keeps
}

// mostSpots is how many directories are remembered.
const mostSpots = 10_000

// spot is a directory and the state of the names there.
func (f *Fresh) spot(dir string) (s Spot) {
	if s, known := f.spots[dir]; known {
		return s
	}
	if dir == "" {
		s = f.root
	} else if i := strings.LastIndexByte(dir, '/'); i >= 0 {
		s, _, _ = f.match.Step(f.spot(dir[:i]), dir[i+1:])
	} else {
		s, _, _ = f.match.Step(f.spot(""), dir)
	}
	if f.repos[dir] {
		s, _ = f.match.Enter(s)
	}
	if len(f.spots) >= mostSpots {
		clear(f.spots)
	}
	f.spots[dir] = s
	return s
}

// Repository reports whether git takes a directory with entries of these names for a repository.
func (f *Fresh) Repository(names []string) bool {
	if !f.match.Repositories() {
		return false
	}
	have := map[string]bool{}
	for _, n := range names {
		if len(n) >= 4 && len(n) <= 32 {
			have[string(trusted.Fold(nil, n))] = true
		}
	}
	return have["head"] && (have["objects"] && have["refs"] || have["commondir"])
}

// Take moves an entry of a directory into the quarantine. Path is its intended place in the workspace.
func (f *Fresh) Take(dir int, name, path string, mode uint32) error {
	at, err := f.quarantine.atHome()
	if err != nil {
		return err
	}
	item, err := at.take(dir, name)
	if errors.Is(err, unix.EACCES) { // moving a directory writes to it
		if err = shutOrOpen(dir, name, 0o700); err == nil {
			item, err = at.take(dir, name)
		}
	}
	if err != nil { // it stays on the stage and goes with that, and the outcome says so
		f.quarantine.stay(palyra.RemnantNotMoved, path)
		return fmt.Errorf("seal: take %q: %w", path, err)
	}
	e := watchedPath{path: path, mode: mode}
	f.quarantine.note(path)
	if err := f.quarantine.store(at, item, e); err != nil {
		return fmt.Errorf("seal: index of %q: %w", path, err)
	}
	return nil
}

// shutOrOpen sets the mode of a directory.
func shutOrOpen(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return chmod(fd, mode)
}
