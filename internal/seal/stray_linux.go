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

// A link to where runs keep what nobody looks through would let the host in by
// another door. So no link may lead there, new or old, through whatever is on the
// way. A new one must also be one of which it is known where it leads: what goes
// through /proc is another place to whoever follows it, and what leads out to
// nothing can come to lead anywhere.

// resolve finds out where a path outside the workspace leads.
func (w *walker) resolve(path string) symlink.End {
	if w.closed == nil {
		var err error
		if w.closed, err = symlink.NewSet(w.limits.Closed); err != nil { // Scan refused it; what is not known is closed
			return symlink.End{Path: path, Missing: true, Closed: true}
		}
	}
	if path == "" { // too many links
		return symlink.End{Missing: true}
	}
	return w.closed.Resolve(path)
}

// forbids reports whether no link may lead to a path outside, whoever made it.
func (w *walker) forbids(path string) bool {
	end := w.resolve(path)
	return end.Closed || end.Proc
}

// settleLink decides about a link that no name is about. A new one that leads from
// outside to a directory below node_modules makes that another place: it may not
// have what is sealed elsewhere. A known one is asked again where it leads unless
// every name counts there and it stays inside: another run's sweep may have seen it
// first, links below node_modules are not watched unless they lead out, and what is
// outside changes.
func (w *walker) settleLink(p *quarantiner, e watchedPath) (bool, error) {
	was, known := w.known[e.path]
	known = known && was.kind == link && bytes.Equal(was.text, e.text)
	if w.out.amongPackages(e.path) { // one that leads out, but nowhere where it may not
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

// takeStray decides about a link below node_modules. Package managers make tens of
// thousands that stay inside, which are too many to remember. One that leads where
// none may goes at once, new or old; another that leads out is noted.
func (w *walker) takeStray(a at, path string, st status) error {
	name := path[len(path)-baseLen(path):]
	n, err := unix.Readlinkat(a.fd, name, w.buf)
	if err != nil || !symlink.Strays(string(w.buf[:n]), strings.Count(path, "/")) {
		return nil // what is gone leads nowhere
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

// amongPackages reports whether a path lies where only git's names count.
func (s *Snapshot) amongPackages(path string) bool {
	dir := filepath.Dir(path)
	return inModules(dir) && !s.looksInto(dir)
}

// unclean is what an absolute path, as somebody wrote it, is below a directory: no part
// before that leads up. What follows may, so it is not cleaned.
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
