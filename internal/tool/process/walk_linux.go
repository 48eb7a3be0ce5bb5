package process

import (
	"context"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/fingerprint"
	"palyra/internal/subpath"
)

const (
	maxLinks = 40  // as many as the kernel follows
	maxDepth = 200 // directories above a file; each is held open for a moment
)

// world is the file system as the run's user sees it.
type world struct {
	*Driver
	ctx       context.Context
	user      userRights
	workspace string   // real path
	cwd       string   // real path, once it is known
	layer     *os.File // the workspace as it is on the stage of an agent; nil: it is where it is
	view      *view    // the part that the run's room shows; nil: the whole system
	lookup    []string
	dirs      []string           // of the lookup path, by their real paths
	hashed    *int64             // bytes that this plan has hashed
	print     *fingerprint.Print // of all that was looked at
}

// place is a found file or directory. Its descriptors are references: nothing was opened for reading.
type place struct {
	real     string // path without links
	host     string // the path outside the room
	dir      int    // the directory it lies in; none: it is a mount of its own
	name     string
	names    []string      // of the links that led to it, and its own
	links    []palyra.Link // links of the workspace that led to it
	st       unix.Stat_t
	writable bool // the run's user could change or replace it
	shaky    bool // the run's user could change a link that led here
	open     []step
}

// step is a component of a real path.
type step struct {
	fd      int // none: a directory that exists in the room only
	name    string
	real    string
	host    string // the path outside the room
	mounted bool   // it does not lie in the directory of the step before
	st      unix.Stat_t
}

const none = -1

func (s step) close() {
	if s.fd != none {
		_ = unix.Close(s.fd)
	}
}

func (p *place) close() {
	for _, s := range p.open {
		s.close()
	}
	p.open = nil
}

// walk finds the file of an absolute path, following links, and checks at every directory that the
// run's user may pass. It holds the directories open, so that its result holds for files opened
// from there. Errors are the kernel's.
func (w *world) walk(abs string) (*place, error) {
	root, err := w.root()
	if err != nil {
		return nil, err
	}
	p := &place{open: []step{root}}
	if err := w.follow(p, abs); err != nil {
		p.close()
		return nil, err
	}
	top := p.open[len(p.open)-1]
	p.dir, p.name, p.st = p.open[max(len(p.open)-2, 0)].fd, top.name, top.st
	if top.mounted {
		p.dir = none
	}
	p.real, p.host, p.writable = top.real, top.host, w.writable(p.open)
	p.names = append(p.names, p.name)
	return p, nil
}

// writable reports whether the run's user could change one of the open
// components; in a room, whether the run could.
func (w *world) writable(open []step) bool {
	last := open[len(open)-1]
	if w.view != nil {
		return w.view.writable(last.host)
	}
	for _, s := range open {
		could, asked := w.user.couldWrite(s.real, &s.st)
		if asked { // no path answers for an access list
			w.print.Unsure()
		}
		if could {
			return true
		}
	}
	return subpath.Within(w.workspace, last.real)
}

// root is the start of every walk.
func (w *world) root() (step, error) {
	if w.view != nil {
		return bare("/"), nil
	}
	s, err := w.look(unix.AT_FDCWD, "/", "/")
	s.real = "/"
	return s, err
}

// child opens a name in the directory that was opened last.
func (w *world) child(here step, name string) (step, error) {
	real := path.Join(here.real, name)
	if w.layer != nil && w.view == nil && real == w.workspace {
		w.print.Unsure()
		s, err := look(int(w.layer.Fd()), ".")
		s.name, s.real, s.host, s.mounted = name, real, real, true
		return s, err
	}
	if w.view != nil {
		if s, found, err := w.findInRoom(here, real, name); found || err != nil {
			return s, err
		}
	}
	s, err := w.look(here.fd, name, path.Join(here.host, name))
	s.real = real
	return s, err
}

// follow appends the components of a path to the open ones.
func (w *world) follow(p *place, abs string) error {
	todo := strings.Split(abs, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		here := p.open[len(p.open)-1]
		switch {
		case name == "":
			continue
		case here.st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return unix.ENOTDIR
		case !w.user.permitted(mayExecute, &here.st):
			return unix.EACCES
		case name == ".":
			continue
		case name == "..":
			if len(p.open) > 1 {
				here.close()
				p.open = p.open[:len(p.open)-1]
			}
			continue
		case len(p.open) > maxDepth || len(todo) > maxPath:
			return unix.ENAMETOOLONG
		}
		s, err := w.child(here, name)
		if err != nil {
			return err
		}
		p.open = append(p.open, s)
		if s.st.Mode&unix.S_IFMT != unix.S_IFLNK {
			if len(p.open) == 2 && (name == "proc" || name == "dev" || name == "sys") {
				return errShifting
			}
			continue
		}
		if links++; links > maxLinks {
			return unix.ELOOP
		}
		if strings.Trim(strings.Join(todo, ""), ".") == "" { // the last component
			p.names = append(p.names, name)
		}
		target, err := w.leave(p)
		if err != nil {
			return err
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return nil
}

// leave goes back from a link, the last open component, to where its target starts.
func (w *world) leave(p *place) (target string, err error) {
	keep := len(p.open) - 1
	if target, err = readlink(p.open[keep].fd); err != nil {
		return "", err
	}
	if real := p.open[keep].real; subpath.Within(w.workspace, real) {
		p.links = append(p.links, palyra.Link{Path: relative(real, w.workspace), Target: target})
	}
	p.shaky = p.shaky || w.writable(p.open[:keep]) // whoever can write the directory can replace the link
	if path.IsAbs(target) {
		keep = 1
	}
	for _, gone := range p.open[keep:] {
		gone.close()
	}
	p.open = p.open[:keep]
	return target, nil
}

// errShifting is for paths in /proc, /dev and /sys, which mean something else in every process.
var errShifting = palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid,
	"paths in /proc, /dev and /sys stand for something else in every process").
	WithRemedy("name the file itself")

// look is the function of that name, noted under the path outside the room.
func (w *world) look(dir int, name, host string) (step, error) {
	s, err := look(dir, name)
	w.print.At(host, &s.st, err)
	s.host = host
	return s, err
}

// look opens a name of a directory without following or reading it.
func look(dir int, name string) (step, error) {
	fd, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return step{}, err
	}
	s := step{fd: fd, name: name}
	if err := unix.Fstat(fd, &s.st); err != nil {
		_ = unix.Close(fd)
		return step{}, err
	}
	return s, nil
}

func readlink(fd int) (string, error) {
	b := make([]byte, maxPath)
	n, err := unix.Readlinkat(fd, "", b)
	switch {
	case err != nil:
		return "", err
	case n == len(b):
		return "", unix.ENAMETOOLONG
	}
	return string(b[:n]), nil
}

// openat opens one component, closed on exec, repeated when a signal breaks in.
func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}
