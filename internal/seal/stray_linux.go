package seal

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
	"palyra/internal/symlink"
)

// A link to a place that runs write and nobody looks through, such as a cache, would let a run's
// files back into the workspace. So no link may lead there, new or old, directly or through other
// links. Of a new link it must also be known where it leads: a path through /proc is a different
// one for each process, and a link to a missing path outside can come to lead anywhere.

// resolve finds out where a path outside the workspace leads.
func (w *walker) resolve(path string) symlink.End {
	if w.closed == nil {
		var err error
		if w.closed, err = symlink.NewSet(w.limits.Closed); err != nil { // Scan has refused it; without the set everything counts as closed
			return symlink.End{Path: path, Missing: true, Closed: true}
		}
	}
	if path == "" { // too many links
		return symlink.End{Missing: true}
	}
	return w.closed.Resolve(path)
}

// forbids reports whether no link may lead to a path outside, whoever made the link.
func (w *walker) forbids(path string) bool {
	end := w.resolve(path)
	return end.Closed || end.Proc
}

// settleLink decides about a link that no name matches. A new one that leads from outside to a directory below
// node_modules makes every name count there, so the directory may not have sealed paths. A known link is resolved
// again, unless it stays inside where every name counts: another run's sweep may have seen it first, links below
// node_modules are not watched unless they lead out, and the outside changes.
func (w *walker) settleLink(p *quarantiner, e watchedPath) (bool, error) {
	was, known := w.known[e.path]
	known = known && was.kind == link && bytes.Equal(was.text, e.text)
	if w.out.amongPackages(e.path) { // it leads out, but nowhere forbidden
		if !known {
			p.stay(palyra.RemnantLink, e.path)
		}
		return false, nil
	}
	if known && !w.some && !symlink.Strays(string(e.text), strings.Count(e.path, "/")) {
		return false, nil
	}
	links, end, in := w.t.follow(w.out.workspace, e.path)
	if !in {
		to := w.resolve(end)
		through := !known || slices.ContainsFunc(links, inModules)
		end, in = subpath.Rel(w.out.workspace, to.Path)
		switch {
		case to.Closed || through && to.Proc || !known && to.Missing && !in:
			return true, w.away(p, e)
		case !in && !known:
			p.stay(palyra.RemnantLink, e.path)
		}
	}
	if _, own := subpath.Rel(ownDir, end); in && own && !known {
		return true, w.away(p, e)
	}
	if in && inModules(end) && !(known && w.out.looksInto(end)) {
		if (&holder{w: w, left: maxHeld, seen: map[string]bool{end: true}}).holds(end, 0) {
			return true, w.away(p, e)
		}
	}
	return false, nil
}

// takeStray decides about a link below node_modules. Package managers make tens of thousands that
// stay inside, too many to remember. One that leads to a forbidden place is moved away at once, new
// or old; another that leads out is noted.
func (w *walker) takeStray(a at, path string, st status) error {
	name := path[len(path)-baseLen(path):]
	buf := w.buffer()
	n, err := unix.Readlinkat(a.fd, name, buf)
	if err != nil || !symlink.Strays(string(buf[:n]), strings.Count(path, "/")) {
		return nil // a link that is gone leads nowhere
	}
	_, end, in := w.t.follow(w.out.workspace, path)
	if in {
		return nil
	}
	to := w.resolve(end)
	if _, back := subpath.Rel(w.out.workspace, to.Path); back {
		return nil
	}
	if !w.sweeps || end == "" || !to.Closed && !to.Proc {
		return w.noteLink(a, path, st)
	}
	w.early++
	w.out.dirs[a.dir].flags |= racy
	return w.away(w.quarantine, watchedPath{path: path, dir: a.dir, kind: link, id: st.id, mode: st.mode})
}

// amongPackages reports whether only git's names count at a path.
func (s *Snapshot) amongPackages(path string) bool {
	dir := filepath.Dir(path)
	return inModules(dir) && !s.looksInto(dir)
}

// unclean returns the part of an absolute path below a directory, if no part before that leads up.
// It is not cleaned, because parts of it may lead up.
func unclean(top, path string) (string, bool) {
	rest := strings.Split(path, "/")
	for part := range strings.SplitSeq(strings.Trim(filepath.Clean(top), "/"), "/") {
		for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
			rest = rest[1:]
		}
		if part == "" {
			continue
		}
		if len(rest) == 0 || rest[0] != part {
			return "", false
		}
		rest = rest[1:]
	}
	return strings.Join(rest, "/"), true
}
