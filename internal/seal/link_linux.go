package seal

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"palyra/internal/gitfile"
	"palyra/internal/seal/sealname"
)

// A link cannot be mounted over. A link in the place of a sealed path is therefore checked after
// the run and restored if it changed, and what it leads to in the workspace is sealed like the path
// itself, with every link on the way.

const maxHops = 40 // from one link to the next

// modules returns the flags of a directory, its name folded in w.fold, that say whether only git's names count in
// it. All names count where a link leads in from outside: the directory is then more than part of a package.
func (w *walker) modules(above flags, path string) flags {
	w.some = w.some || string(w.fold) == modulesDir
	if above&modules == 0 && string(w.fold) != modulesDir || w.out.bare[path] {
		return 0
	}
	return modules
}

// takeLink notes a symbolic link.
func (w *walker) takeLink(a at, path string, seals bool, st status) error {
	name := path[len(path)-baseLen(path):]
	switch {
	case seals:
		w.note(a.dir, path, sealed, st)
		w.target(a.fd, name)
		return nil
	case w.out.old:
		return nil
	case w.out.dirs[a.dir].flags&modules != 0:
		return w.takeStray(a, path, st)
	}
	return w.noteLink(a, path, st)
}

// noteLink notes a link that no name matches.
func (w *walker) noteLink(a at, path string, st status) error {
	w.note(a.dir, path, link, st)
	w.target(a.fd, path[len(path)-baseLen(path):])
	w.links++
	switch {
	case w.links <= w.limits.links:
		return nil
	case !w.sweeps:
		return denied("the workspace has more than %d symbolic links, too many to tell new ones from old; %q is one of them", w.limits.links,
			path).
			WithRemedy("use a workspace further down, or remove links")
	case !w.fresh(path):
		return nil
	}
	return w.settleEarly()
}

// settleEarly decides at once about the link that was noted last, because there is no room to
// remember it. It is checked again in every sweep.
func (w *walker) settleEarly() error {
	last := len(w.out.entries) - 1
	e := w.out.entries[last]
	w.out.entries, w.links = w.out.entries[:last], w.links-1
	w.out.dirs[e.dir].flags |= racy
	found, err := w.settleLink(w.quarantine, e)
	if found {
		w.early++
	}
	return err
}

// target notes where the last noted link leads.
func (w *walker) target(dir int, name string) {
	buf := make([]byte, unix.PathMax)
	if n, err := unix.Readlinkat(dir, name, buf); err == nil {
		w.out.entries[len(w.out.entries)-1].text = slices.Clone(buf[:n])
	}
}

// readlink returns where a path leads, if it is a link.
func (t *tree) readlink(path string) (string, bool) {
	dir, name := filepath.Split(path)
	fd, err := t.open(strings.TrimSuffix(dir, "/"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, name, buf)
	return string(buf[:max(n, 0)]), err == nil
}

// follow goes from a path of the workspace to where it leads, through the links on the way, which
// it returns. in: the end is in the workspace; otherwise the end is an absolute path as it is
// written, empty when there are too many links. The end need not exist.
func (t *tree) follow(workspace, path string) (links []string, end string, in bool) {
	rest, at := strings.Split(path, "/"), []string(nil)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return links, strings.Join(append([]string{workspace, ".."}, rest...), "/"), false
			}
			at = at[:len(at)-1]
			continue
		}
		here := strings.Join(append(slices.Clone(at), part), "/")
		to, is := t.readlink(here)
		if !is {
			at = append(at, part)
			continue
		}
		if links = append(links, here); len(links) > maxHops {
			return links, "", false
		}
		if filepath.IsAbs(to) {
			inside, ok := unclean(workspace, to)
			if !ok {
				return links, strings.Join(append([]string{to}, rest...), "/"), false
			}
			to = inside
			at = nil
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return links, strings.Join(at, "/"), true
}

// leads finds where sealed paths lead: by links, and by the configuration of repositories.
func (t *tree) leads(s *Snapshot) (anchors []sealname.Anchor, err error) {
	names := sync.OnceValue(func() cover {
		return cover{m: s.match, top: s.workspace, start: s.start, repos: s.repositories(), bare: s.bare}
	})
	if anchors, err = t.outside(s); err != nil {
		return nil, err
	}
	for _, e := range s.entries {
		if e.kind != sealed {
			continue
		}
		if e.isLink() {
			anchors = append(anchors, t.held(names(), e.path)...)
		}
		if (e.isLink() || e.mode&unix.S_IFMT == unix.S_IFREG) && s.dirs[e.dir].flags&repo != 0 && isConfig(e.path) {
			more, err := t.configured(s, e)
			if err != nil {
				return nil, err
			}
			anchors = append(anchors, more...)
		}
	}
	slices.SortFunc(anchors, func(a, b sealname.Anchor) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Rule-b.Rule, a.Seg-b.Seg)
	})
	return slices.Compact(anchors), nil
}

// intoModules finds the directories below node_modules into which links lead from outside.
func (t *tree) intoModules(s *Snapshot) map[string]bool {
	bare := map[string]bool{}
	some := len(s.bare) > 0 || slices.ContainsFunc(s.dirs, func(n node) bool { return n.flags&modules != 0 })
	for _, e := range s.entries {
		// without a node_modules so far, the link must name one
		if e.kind != link || s.amongPackages(e.path) || !some && !inModules(string(e.text)) {
			continue
		}
		if _, end, in := t.follow(s.workspace, e.path); in && inModules(end) {
			bare[end] = true
		}
	}
	return bare
}

// held returns the anchors for a sealed link: the links on its way, its end, and the sealed paths in there.
func (t *tree) held(c cover, path string) (out []sealname.Anchor) {
	links, end, in := t.follow(c.top, path)
	for _, l := range links {
		if l != path {
			out = append(out, sealname.Anchor{Path: l, Rule: -1})
		}
	}
	if !in {
		return out
	}
	what, state := c.follow(path)
	if what == sealname.Full {
		out = append(out, sealname.Anchor{Path: end, Rule: -1})
	}
	return append(out, c.m.Rests(state, end)...)
}

// inMiddle reports whether a directory of a repository holds the state of an unfinished operation,
// such as a rebase.
func inMiddle(name []byte) bool { return slices.Contains(gitfile.StateDirs, string(name)) }
