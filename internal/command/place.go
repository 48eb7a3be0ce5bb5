package command

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/subpath"
)

const maxDirs = 8

// scope is the directory that a command stands in. After `cd a || cd b` a shell may be in any of several
// directories: a path is outside when it is so from one of them.
type scope struct {
	workspace string
	dirs      []string
	moved     bool // to the directory of a word alone, which may be a link: what is above is not known
}

func newScope(in Input) scope {
	ws, cwd := in.Workspace, in.Cwd
	if ws != "" && path.IsAbs(ws) {
		ws = path.Clean(ws)
	} else {
		ws = ""
	}
	if !path.IsAbs(cwd) {
		cwd = path.Join("/", ws, cwd)
	}
	return scope{workspace: ws, dirs: []string{path.Clean(cwd)}}
}

// anchors reports whether a clean path is the directory or below it. Nothing is below an unknown directory,
// and a workspace of / anchors nothing.
func anchors(dir, p string) bool { return dir != "/" && subpath.Within(dir, p) }

func scratch(p string) bool {
	return slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/dev/shm"}, func(d string) bool { return anchors(d, p) })
}

// inWorkspace reports whether every directory that the command may stand in is the workspace's.
func (s scope) inWorkspace() bool {
	return !slices.ContainsFunc(s.dirs, func(d string) bool { return !anchors(s.workspace, d) })
}

// pathsFrom returns where paths of the word lead, as seen from each directory.
func (s scope) pathsFrom(p string) []string {
	if strings.HasPrefix(p, "~") {
		return []string{p}
	}
	if path.IsAbs(p) {
		return []string{subpath.Clean(p)}
	}
	var out []string
	for _, d := range s.dirs {
		if j := path.Join(d, p); !slices.Contains(out, j) {
			out = append(out, j)
		}
	}
	return out
}

// enter returns the scope after a change of directory; false when it can no
// longer be followed. When the change is sure the old directories are left.
func (s scope) enter(p string, sure bool) (scope, bool) {
	dirs := s.pathsFrom(p)
	if !sure {
		for _, d := range s.dirs {
			if !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	return scope{workspace: s.workspace, dirs: dirs, moved: s.moved || sure}, len(dirs) <= maxDirs && !strings.HasPrefix(p, "~")
}

// standsForNoFile reports whether a word stands for no file, or for one that keeps nothing.
func standsForNoFile(p string) bool {
	switch p {
	case "", "-", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero":
		return true
	}
	rest, ok := strings.CutPrefix(p, "/dev/fd/")
	return ok && digits(rest)
}

func digits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}

// goesUpAfterDown reports whether a path goes up after going down: with a symbolic link on the way it leads
// elsewhere than it seems to.
func goesUpAfterDown(p string) bool {
	down := false
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == ".." && down:
			return true
		case part != "" && part != "." && part != "..":
			down = true
		}
	}
	return false
}

// goesUp reports whether a path goes up.
func goesUp(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }

// place is where one word leads.
type place struct {
	outside bool // of the workspace
	root    bool // the workspace itself, or something it is in
	scratch bool // a temporary directory
	git     bool // a repository's own files
	device  bool
	hidden  bool // by a dot, as files are that other programs trust
}

// isEmptyDevice reports whether a path is a device that holds nobody's data: reading it is no look at the
// machine. Writing to it is another matter.
func isEmptyDevice(p string) bool {
	return standsForNoFile(p) || p == "/dev/urandom" || p == "/dev/random" || p == "/dev/full"
}

// noteRead anchors the path of a word that is read.
func (r *reading) noteRead(w word, at scope) {
	if !isEmptyDevice(w.text) || !w.fixed() {
		r.anchor(w, at)
	}
}

// noteWritten anchors the path of a word that is entered or written.
func (r *reading) noteWritten(w word, at scope) place {
	if standsForNoFile(w.text) && w.fixed() {
		return place{}
	}
	return r.anchor(w, at)
}

// anchor finds where the path of a word leads, and notes it when that is out of the workspace.
func (r *reading) anchor(w word, at scope) place {
	var out place
	p := w.text
	if w.glob >= 0 {
		p = path.Dir(w.text[:w.glob] + "x")
		out.git = strings.HasSuffix(w.text, "/.git")
	}
	if at.moved && goesUp(w.text) {
		r.doubt("a path goes up from a directory that may be a link")
	}
	for _, abs := range at.pathsFrom(p) {
		out.notePath(abs, p, at.workspace)
		if goesUpAfterDown(w.text) || !anchors(at.workspace, abs) {
			out.outside = true
			r.stray(abs)
		}
	}
	return out
}

// dotted reports whether a name that begins with a dot stands on the path from the workspace: a command that
// stands in such a directory need not name it.
func dotted(workspace, abs string) bool {
	return anchors(workspace, abs) && strings.Contains(abs[len(workspace):], "/.")
}

// inRepository reports whether the command may stand in a repository's own files.
func (s scope) inRepository() bool {
	return slices.ContainsFunc(s.dirs, func(d string) bool { return anchors(s.workspace, d) && repository(d[len(s.workspace):]) })
}

func repository(p string) bool { return slices.Contains(strings.Split(p, "/"), ".git") }

func (o *place) notePath(abs, as, workspace string) {
	o.root = o.root || anchors(abs, workspace) || abs == "/"
	o.scratch = scratch(abs) && !goesUpAfterDown(as)
	o.hidden = o.hidden || strings.HasPrefix(as, ".") && !strings.HasPrefix(as, "./") || strings.Contains(as, "/.") || dotted(workspace, abs)
	o.device = o.device || anchors("/dev", abs)
	o.git = o.git || repository(abs)
}
