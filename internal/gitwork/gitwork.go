// Package gitwork tells what becomes of the work in git repositories when the changes of a run are kept: which edits
// go that no commit has, and which refs lose commits.
//
// It reads a workspace as it is and as it would be, by package gitrepo: without git, bounded, and knowing that a
// stranger may have written all of it. What it tells keeps people from losing work by mistake; it is no defence
// against who sets out to hide a loss, and what cannot be read is not told. Names that others trust, and what git could
// be made to run, are not looked for here.
package gitwork

import (
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/gitrepo"
	"palyra/internal/subpath"
)

// Bounds of a look.
const (
	maxRepositories = 64
	maxFile         = 16 << 20  // bytes of an edit that is looked at
	maxRead         = 128 << 20 // of all of them
	maxCommits      = 10_000    // that are looked at to find one
	maxPointer      = 4 << 10   // bytes of a file that says where a repository is
	maxLog          = 4 << 20   // bytes of a list of stashes
)

// Change is a path that is different. Was and Now are digests of a file's content; none: there is no file, or nobody
// read it.
type Change struct {
	Path     string
	Was, Now string
	Had, Has bool  // a file
	Size     int64 // that it had
	Left     int64 // that it has
}

// Lost is what goes.
type Lost struct {
	Uncommitted []string // files with edits that no commit has
	Rewound     []string // refs that lose commits, behind the repository's directory where that is not the workspace's own
	Share       int64    // per cent of the files that git knows in the workspace that are different; -1: not known
	Omitted     int64    // changes in repositories beyond those that are looked at
}

// look is at one workspace.
type look struct {
	ctx           context.Context
	before, after gitrepo.Files
	all           []Change
	made          map[string]bool // contents that files have now
	left          int64           // bytes that may still be read
	dirs          map[string]string
}

// Look tells what goes. Neither are changes missing from all, nor are those of a repository's own files. own is where the
// state of the work tree at the top is, of a repository whose common part is at .git; "": it has no other place.
func Look(ctx context.Context, before, after gitrepo.Files, all []Change, own string) Lost {
	if own == "" {
		return lookAt(ctx, before, after, all, nil)
	}
	lost := lookAt(ctx, before, after, all, map[string]string{".": own})
	var shared []Change
	for _, c := range all {
		if subpath.Below(".git", c.Path) && !subpath.Within(own, c.Path) {
			shared = append(shared, c)
		}
	}
	lost.Rewound = append(lost.Rewound, lookAt(ctx, before, after, shared, nil).Rewound...)
	slices.Sort(lost.Rewound)
	lost.Rewound = slices.Compact(lost.Rewound)
	return lost
}

// lookAt is Look with the places of repositories that are known.
func lookAt(ctx context.Context, before, after gitrepo.Files, all []Change, dirs map[string]string) Lost {
	l := &look{ctx: ctx, before: before, after: after, all: all, made: map[string]bool{}, left: maxRead, dirs: map[string]string{}}
	maps.Copy(l.dirs, dirs)
	for _, c := range all {
		if c.Has && c.Now != "" {
			l.made[c.Now] = true
		}
	}
	out := Lost{Share: -1}
	repositories, omitted := l.byRepository()
	out.Omitted = omitted
	for dir, changed := range repositories {
		l.repository(dir, changed, &out)
	}
	slices.Sort(out.Uncommitted)
	slices.Sort(out.Rewound)
	return out
}

// work are the changes that concern one repository.
type work struct {
	top   string   // of its work tree
	files []Change // of files in it
	own   bool     // something of the repository's own changed
	logs  []Change // of what its refs were
}

// byRepository sorts changes by the repository that they are in: its directory, below the workspace. Those of more
// repositories than are looked at are counted.
func (l *look) byRepository() (out map[string]*work, omitted int64) {
	out = map[string]*work{}
	known := map[string]string{}
	for _, c := range l.all {
		top := l.topOf(path.Dir(c.Path), known)
		if top == "" {
			continue
		}
		dir := l.gitDir(top)
		rest, own := subpath.Rel(dir, c.Path)
		said := own && !strings.HasPrefix(rest, "objects/") || !own && c.Had && c.Path != path.Join(top, ".git")
		w := out[dir]
		switch {
		case w == nil && len(out) < maxRepositories:
			w = &work{top: top}
			out[dir] = w
		case w == nil && said:
			omitted++
		}
		switch {
		case w == nil || !said: // those that are known go on
		case !own:
			w.files = append(w.files, c)
		case strings.HasPrefix(rest, "logs/"):
			w.logs = append(w.logs, c)
			fallthrough
		default:
			w.own = true
		}
	}
	return out, omitted
}

// topOf is the directory at or above one that has a repository's work tree; "": there is none.
func (l *look) topOf(dir string, known map[string]string) (top string) {
	if top, ok := known[dir]; ok {
		return top
	}
	switch {
	case path.Base(dir) == ".git" && dir != ".git": // in it
		top = l.topOf(path.Dir(dir), known)
	case dir == ".git":
		top = l.topOf(".", known)
	case l.gitDir(dir) != "":
		top = dir
	case dir != ".":
		top = l.topOf(path.Dir(dir), known)
	}
	known[dir] = top
	return top
}

// gitDir is where the repository of a work tree is; "": it has none in the workspace.
func (l *look) gitDir(top string) string {
	dir, known := l.dirs[top]
	if !known {
		dir = l.findGitDir(top)
		l.dirs[top] = dir
	}
	return dir
}

func (l *look) findGitDir(top string) string {
	at := path.Join(top, ".git")
	if l.isFile(path.Join(at, "HEAD")) {
		return at
	}
	text, err := l.text(l.before, at, maxPointer)
	to, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if err != nil || !ok || path.IsAbs(to) {
		return ""
	}
	if at = path.Join(top, to); !subpath.Within(".", at) || !l.isFile(path.Join(at, "HEAD")) {
		return ""
	}
	return at
}

func (l *look) isFile(name string) bool {
	f, err := l.before.Open(name)
	if err == nil {
		_ = f.Close() // it was only looked at
	}
	return err == nil
}

// text reads a small file.
func (l *look) text(from gitrepo.Files, name string, most int64) ([]byte, error) {
	f, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = gitrepo.ErrUnreadable
	}
	return b, err
}

// repository looks at one.
func (l *look) repository(dir string, w *work, out *Lost) {
	was, err := gitrepo.Open(l.ctx, l.before, dir)
	if err != nil {
		return
	}
	defer was.Close()
	is, err := gitrepo.Open(l.ctx, l.after, dir)
	if err != nil {
		return
	}
	defer is.Close()
	c := &repository{look: l, dir: dir, work: w, was: was, is: is}
	if c.refs, err = was.Refs(); err != nil {
		return
	}
	if c.now, err = is.Refs(); err != nil {
		return
	}
	edits, known, changed := c.uncommitted()
	out.Uncommitted = append(out.Uncommitted, edits...)
	if w.top == "." && known > 0 {
		out.Share = changed * 100 / known
	}
	if w.own {
		for _, ref := range c.rewound() {
			if dir != ".git" {
				ref = dir + ": " + ref
			}
			out.Rewound = append(out.Rewound, ref)
		}
	}
}

// repository is one before and after.
type repository struct {
	*look
	*work
	dir       string
	was, is   *gitrepo.Repository
	refs, now map[string]gitrepo.ID
	staged    map[string]gitrepo.ID // of changed files, in the index after the run
}

// uncommitted are the files that git knows, that had what no commit has, and that are gone or have again what a commit
// has. An edit on top of others is ordinary work. It also says how many files git knows, and how many of them are
// different.
func (c *repository) uncommitted() (lost []string, known, changed int64) {
	wanted := make(map[string]Change, len(c.files))
	for _, f := range c.files {
		if rel, in := subpath.Rel(c.top, f.Path); in {
			wanted[rel] = f
		}
	}
	tracked := map[string]gitrepo.ID{}
	err := c.was.Index(func(p []byte, e gitrepo.IndexEntry) error {
		known++
		if _, is := wanted[string(p)]; is && !e.IsLink() {
			tracked[string(p)] = e.ID
		}
		return nil
	})
	if err != nil {
		return nil, 0, 0
	}
	c.staged = map[string]gitrepo.ID{}
	_ = c.is.Index(func(p []byte, e gitrepo.IndexEntry) error { // what cannot be read has saved nothing
		if _, is := tracked[string(p)]; is {
			c.staged[string(p)] = e.ID
		}
		return nil
	})
	for _, rel := range slices.Sorted(maps.Keys(tracked)) {
		f := wanted[rel]
		if changed++; c.goes(rel, f) {
			lost = append(lost, f.Path)
		}
	}
	return lost, known, changed
}

// goes reports whether a change takes an edit that no commit has.
func (c *repository) goes(rel string, f Change) bool {
	if f.Has && f.Was == f.Now || f.Was != "" && c.made[f.Was] { // it is there, or was moved
		return false
	}
	had, ok := c.blob(c.was, c.before, f.Path, f.Size)
	head, err := c.was.At(c.refs["HEAD"], rel)
	if !ok || err != nil || had == head.ID {
		return false
	}
	if c.saved(rel, had) {
		return false
	}
	if !f.Has {
		return true
	}
	has, ok := c.blob(c.is, c.after, f.Path, f.Left)
	return ok && c.committed(rel, has)
}

// blob is what git would call the content of a file.
func (c *repository) blob(r *gitrepo.Repository, from gitrepo.Files, name string, size int64) (gitrepo.ID, bool) {
	if c.left -= size; size > maxFile || c.left < 0 {
		return "", false
	}
	f, err := from.Open(name)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // it was only read
	id, err := r.Blob(size, f)
	return id, err == nil
}

// tips are the commits that have a person's work after the run.
func (c *repository) tips() []gitrepo.ID {
	return []gitrepo.ID{c.now["HEAD"], c.now["refs/stash"]}
}

// saved reports whether content of a path is in the index or a commit after the run.
func (c *repository) saved(rel string, id gitrepo.ID) bool {
	return c.staged[rel] == id || slices.ContainsFunc(c.tips(), func(tip gitrepo.ID) bool {
		e, err := c.is.At(tip, rel)
		return err == nil && e.ID == id
	})
}

// committed reports whether content of a path is what a commit has or had there.
func (c *repository) committed(rel string, id gitrepo.ID) bool {
	for _, of := range []struct {
		r   *gitrepo.Repository
		tip gitrepo.ID
	}{{c.was, c.refs["HEAD"]}, {c.is, c.now["HEAD"]}} {
		if e, err := of.r.At(of.tip, rel); err == nil && e.ID == id && id != "" {
			return true
		}
	}
	return false
}
