package command

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/subpath"
)

const maxDirs = 8

// scope is where a command stands. After `cd a || cd b` a shell may be in any of
// several directories: a path is outside when it is so from one of them.
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

// anchors tells whether a clean path is the directory or below it. Nothing is below
// an unknown one, and a workspace of / anchors nothing.
func anchors(dir, p string) bool { return dir != "/" && subpath.Within(dir, p) }

func scratch(p string) bool {
	return slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/dev/shm"}, func(d string) bool { return anchors(d, p) })
}

// inWorkspace tells whether every directory the command may stand in is the
// workspace's.
func (s scope) inWorkspace() bool {
	return !slices.ContainsFunc(s.dirs, func(d string) bool { return !anchors(s.workspace, d) })
}

// pathsFrom returns where paths of the word lead, as seen from each directory.
func (s scope) pathsFrom(p string) []string {
	if strings.HasPrefix(p, "~") {
		return []string{p}
	}
	if path.IsAbs(p) {
		return []string{path.Clean(p)}
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

// neutral tells of words that stand for no file, or for one that keeps nothing.
func neutral(p string) bool {
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

// winding tells of paths that go up after going down: with a symbolic link on the
// way they lead elsewhere than they seem to.
func winding(p string) bool {
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

// climbs tells of paths that go up.
func climbs(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }

// place is where one word leads.
type place struct {
	outside bool // of the workspace
	root    bool // the workspace itself, or something it is in
	scratch bool // a temporary directory
	git     bool // a repository's own files
	device  bool
	hidden  bool // by a dot, as files are that other programs trust
}

// source tells of devices that hold nothing of anybody: reading them is no look at
// the machine. Writing to them is another matter.
func source(p string) bool {
	return neutral(p) || p == "/dev/urandom" || p == "/dev/random" || p == "/dev/full"
}

// look anchors the path of a word that is read.
func (r *reading) look(w word, at scope) {
	if !source(w.text) || !w.fixed() {
		r.anchor(w, at)
	}
}

// locate anchors the path of a word that is entered or written.
func (r *reading) locate(w word, at scope) place {
	if neutral(w.text) && w.fixed() {
		return place{}
	}
	return r.anchor(w, at)
}

// anchor tells where the path of a word leads, and notes it when that is out of the
// workspace.
func (r *reading) anchor(w word, at scope) place {
	var out place
	p := w.text
	if w.glob >= 0 {
		p = path.Dir(w.text[:w.glob] + "x")
		out.git = strings.HasSuffix(w.text, "/.git")
	}
	if at.moved && climbs(w.text) {
		r.doubt("a path goes up from a directory that may be a link")
	}
	for _, abs := range at.pathsFrom(p) {
		out.notePath(abs, p, at.workspace)
		if winding(w.text) || !anchors(at.workspace, abs) {
			out.outside = true
			r.stray(abs)
		}
	}
	return out
}

// dotted tells of paths with a name on the way from the workspace that a dot hides:
// whoever stands there already need not say it.
func dotted(workspace, abs string) bool {
	return anchors(workspace, abs) && strings.Contains(abs[len(workspace):], "/.")
}

// inRepository tells that the command may stand in a repository's own files.
func (s scope) inRepository() bool {
	return slices.ContainsFunc(s.dirs, func(d string) bool { return anchors(s.workspace, d) && repository(d[len(s.workspace):]) })
}

func repository(p string) bool { return slices.Contains(strings.Split(p, "/"), ".git") }

func (o *place) notePath(abs, as, workspace string) {
	o.root = o.root || anchors(abs, workspace) || abs == "/"
	o.scratch = scratch(abs) && !winding(as)
	o.hidden = o.hidden || strings.HasPrefix(as, ".") && !strings.HasPrefix(as, "./") || strings.Contains(as, "/.") || dotted(workspace, abs)
	o.device = o.device || anchors("/dev", abs)
	o.git = o.git || repository(abs)
}
