package process

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
)

// view is the part of the file system that a room shows, by paths of the room.
type view struct {
	at    map[string]shown
	above map[string]bool // directories that only hold the others
	files map[string]bool // files that the profile makes
	write []string        // paths outside the room that the run can write
}

// shown is a path outside the room that the room shows.
type shown struct {
	source string
	own    bool // the daemon's, for this workspace
}

// system lists what every room shows read-only.
var system = slices.Concat(readOnlyInside, []string{alternatives})

// alternatives holds the links by which some systems choose between programs. A room has only a
// selection of the rest of /etc.
const alternatives = "/etc/alternatives"

// The errors of a walk through a room.
var (
	errHidden    = errors.New("process: the room does not show it")
	errSelected  = errors.New("process: the room has a selection of its own there")
	errGenerated = errors.New("process: the profile makes it")
)

// newView is the view of a plan's room.
func newView(p palyra.Plan) *view {
	v := &view{at: map[string]shown{}, above: map[string]bool{}, files: map[string]bool{}, write: []string{p.Workspace.Path}}
	for _, dir := range system {
		v.add(dir, shown{source: dir})
	}
	for _, m := range p.Mounts {
		v.add(m.Target, shown{source: m.Source, own: m.Writable})
		if m.Writable {
			v.write = append(v.write, m.Source)
		}
	}
	for _, f := range p.Files {
		v.files[f.Target] = true
		v.hold(f.Target)
	}
	v.add(p.Workspace.Path, shown{source: p.Workspace.Path})
	return v
}

func (v *view) add(target string, s shown) {
	v.at[target] = s
	v.hold(target)
}

// hold adds the directories above a path.
func (v *view) hold(target string) {
	for dir := path.Dir(target); dir != "/" && !v.above[dir]; dir = path.Dir(dir) {
		v.above[dir] = true
	}
}

// writable reports whether a run can change the file at a path outside.
func (v *view) writable(host string) bool {
	return slices.ContainsFunc(v.write, func(top string) bool { return subpath.Within(top, host) })
}

// bare is a directory that exists in the room only.
func bare(real string) step {
	return step{fd: none, name: path.Base(real), real: real, st: unix.Stat_t{Mode: unix.S_IFDIR | 0o755}}
}

// findInRoom finds a name of the room. It looks at nothing that the room does not show, so that a refusal tells
// nothing about it. found is false for a name that can only lie in the present directory.
func (w *world) findInRoom(here step, real, name string) (s step, found bool, err error) {
	switch at, mounted := w.view.at[real]; {
	case mounted:
		s, err = w.mounted(at)
		s.name, s.real, s.mounted = name, real, true
		return s, true, err
	case w.view.files[real]:
		return step{}, false, errGenerated
	case here.fd != none:
		return step{}, false, nil
	case w.view.above[real]:
		return bare(real), true, nil
	case real == "/proc" || real == "/dev" || real == "/sys":
		return step{}, false, errShifting
	case subpath.Within("/etc", real):
		return step{}, false, errSelected
	}
	return step{}, false, errHidden
}

// mounted opens a shown path. The run's user must be able to pass the way to it, unless it is the
// system's or the daemon's own.
func (w *world) mounted(at shown) (step, error) {
	if at.own || slices.Contains(system, at.source) {
		return w.lookStraight(at.source)
	}
	outside := *w
	outside.view = nil
	p, err := outside.walk(at.source)
	if err != nil {
		return step{}, err
	}
	last := len(p.open) - 1
	s := p.open[last]
	p.open = p.open[:last]
	p.close()
	return s, nil
}

// lookStraight opens a path without links, except perhaps the last name.
func (w *world) lookStraight(abs string) (step, error) {
	if path.Dir(abs) == "/" {
		return w.look(unix.AT_FDCWD, abs, abs)
	}
	for up := path.Dir(abs); up != "/" && w.print != nil; up = path.Dir(up) {
		var st unix.Stat_t
		err := unix.Lstat(up, &st)
		w.print.At(up, &st, err)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	dir, err := openat2(path.Dir(abs), how)
	if err != nil {
		return step{}, err
	}
	defer unix.Close(dir)
	return w.look(dir, path.Base(abs), abs)
}

func openat2(abs string, how unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, abs, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// hostDirs returns where directories of the room lie outside; it leaves out those that the room does not show.
func (w *world) hostDirs(dirs []string) []string {
	if w.view == nil {
		return dirs
	}
	var out []string
	for _, dir := range dirs {
		for top := dir; top != "/"; top = path.Dir(top) {
			if at, ok := w.view.at[top]; ok {
				out = append(out, path.Join(at.source, relative(dir, top)))
				break
			}
		}
	}
	return out
}
