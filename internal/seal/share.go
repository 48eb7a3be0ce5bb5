package seal

import (
	"bytes"
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra/internal/seal/sealname"
	"palyra/internal/subpath"
	"palyra/internal/trusted"
)

// Workspace is the directory of s.
func (s *Snapshot) Workspace() string { return s.workspace }

// Began is the time when the look of s began.
func (s *Snapshot) Began() time.Time { return s.began }

// Moved lists the paths that the last Sweep moved away and did not restore, the first thousand of them.
func (s *Snapshot) Moved() []string { return s.moved }

// Knows reports whether something sealed or kept was at a path when s was made.
func (s *Snapshot) Knows(path string) bool {
	if e, odd := s.odd[path]; odd {
		return e.kind != 0
	}
	return slices.ContainsFunc(s.entries, func(e watchedPath) bool { return e.path == path })
}

// Share makes s agree with the snapshot of runs under way at this moment, in the same tree or one
// that contains it or lies in it. Sealed paths that with does not know can be those runs' work: s
// forgets them, though they were there when s was made. Only s changes.
func (s *Snapshot) Share(with *Snapshot) error {
	m, err := Compile(with.match.Names()) // the matcher of with is in use elsewhere
	if err != nil {
		return err
	}
	m.AnchorAll(with.match.Held())
	c := cover{m: m, top: with.workspace, start: with.start, repos: s.repositories(), bare: with.bare}
	known, odd := with.known(), map[string]watchedPath{}
	for _, e := range s.entries {
		rel, inside := subpath.Rel(with.workspace, filepath.Join(s.workspace, e.path))
		was, ok := known[rel]
		switch {
		case !inside || with.old && (e.kind == link || e.kind == midway):
		case e.kind == link || e.kind == midway:
			if ok && (was.kind != e.kind || !bytes.Equal(was.text, e.text)) {
				was.path = e.path
				odd[e.path] = was
			} else if !ok && with.notes(rel, e.kind) {
				odd[e.path] = watchedPath{}
			}
		case e.kind != sealed && e.kind != kept:
		case ok && (was.id != e.id || was.born != e.born):
			was.path = e.path
			odd[e.path] = was
		case !ok && c.covers(rel):
			odd[e.path] = watchedPath{}
		}
	}
	s.addOverrides(odd)
	return nil
}

// modulesDir is the directory of packages, in which only git's names count.
const modulesDir = "node_modules"

// notes reports whether s would have an entry for a link or a rebase at that path of its workspace.
func (s *Snapshot) notes(rel string, k kind) bool {
	if k == midway {
		return s.match.Repositories()
	}
	dir := filepath.Dir(rel)
	return !inModules(dir) || s.looksInto(dir)
}

// looksInto reports whether every name counts in a directory below node_modules.
func (s *Snapshot) looksInto(path string) bool {
	for dir := path; inModules(dir); dir = filepath.Dir(dir) {
		if s.bare[dir] {
			return true
		}
		if string(trusted.Fold(nil, filepath.Base(dir))) == modulesDir {
			return false
		}
	}
	return false
}

// inModules reports whether node_modules is a part of a path.
func inModules(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if len(part) == len(modulesDir) && string(trusted.Fold(nil, part)) == modulesDir {
			return true
		}
	}
	return false
}

// Forget makes s forget the entries at or below paths, which are absolute; it ignores paths outside its workspace.
func (s *Snapshot) Forget(paths []string) {
	odd := map[string]watchedPath{}
	for _, p := range paths {
		if rel, ok := subpath.Rel(s.workspace, p); ok && rel != "." {
			odd[rel] = watchedPath{}
		}
	}
	s.addOverrides(odd)
}

// addOverrides adds entries that replace those of the snapshot. Everything below an unknown path is
// unknown as well.
func (s *Snapshot) addOverrides(odd map[string]watchedPath) {
	if len(odd) == 0 {
		return
	}
	for _, e := range s.entries {
		for dir := e.path; dir != "." && dir != "/"; dir = filepath.Dir(dir) {
			if o, ok := odd[dir]; ok && o.kind == 0 {
				odd[e.path] = watchedPath{}
				break
			}
		}
	}
	all := maps.Clone(s.odd) // a copy of s may be in use
	if all == nil {
		all = odd
	} else {
		maps.Copy(all, odd)
	}
	s.odd = all
}

// known returns the entries by path, for comparison.
func (s *Snapshot) known() map[string]watchedPath {
	m := s.byPath()
	for p, e := range s.odd {
		if delete(m, p); e.kind != 0 {
			m[p] = e
		}
	}
	return m
}

// Repositories lists the directories of the workspace that git takes for repositories, relative to it.
func (s *Snapshot) Repositories() []string {
	var out []string
	for i, d := range s.dirs {
		if d.flags&repo != 0 {
			out = append(out, cmp.Or(s.path(int32(i)), "."))
		}
	}
	return out
}

// repositories returns the same directories, and those above, by absolute path.
func (s *Snapshot) repositories() map[string]bool {
	m := map[string]bool{}
	for _, p := range s.above {
		m[p] = true
	}
	for i, d := range s.dirs {
		if d.flags&repo != 0 {
			m[filepath.Join(s.workspace, s.path(int32(i)))] = true
		}
	}
	return m
}

// cover matches the paths of a workspace with the names.
type cover struct {
	m     *Matcher
	top   string
	start []sealname.Place
	repos map[string]bool
	bare  map[string]bool
}

// covers reports whether a path is sealed or kept.
func (c cover) covers(rel string) bool {
	what, state := c.follow(rel)
	_, keeps := c.m.Into(state)
	return what != sealname.Free || keeps && c.repos[filepath.Join(c.top, rel)]
}

// follow returns what the names make of a path, or of the first sealed path on the way to it, and
// their state there.
func (c cover) follow(rel string) (what sealname.Hit, state int32) {
	state, dir, modules := c.m.Root(c.start), c.top, false
	for rest := rel; rest != "." && rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		folded := trusted.Fold(nil, name)
		if c.repos[dir] {
			state, _ = c.m.Into(state)
		}
		var next int32
		if what, next = c.m.Next(state, folded, modules); what == sealname.Full {
			return what, next
		}
		if c.repos[dir] && sealname.InStore(folded) {
			next = c.m.Stored(next)
		}
		state, dir, modules = next, filepath.Join(dir, name), modules || string(folded) == modulesDir
		if in, ok := subpath.Rel(c.top, dir); ok && c.bare[in] {
			modules = false
		}
	}
	return what, state
}

// Same reports whether s and o know the same, because one is a copy of the other.
func (s *Snapshot) Same(o *Snapshot) bool {
	return len(s.entries) == len(o.entries) && (len(s.entries) == 0 || &s.entries[0] == &o.entries[0]) && len(s.odd) == len(o.odd)
}

// Seals reports whether a file at a path, relative to the workspace, is sealed: by a
// name, or because something sealed leads there.
func (s *Snapshot) Seals() func(rel string) bool {
	c := cover{m: s.match, top: s.workspace, start: s.start, repos: s.repositories(), bare: s.bare}
	return func(rel string) bool {
		what, _ := c.follow(rel)
		return what != sealname.Free
	}
}
