// Package committed finds sealed names that come into a workspace by git's index and
// commits. A run may stage and commit: that is ordinary work. But what it stages
// under a sealed name lies in no directory, so no seal holds it and no sweep finds
// it; it becomes a file with somebody's next checkout, and a workflow with their
// next push.
//
// Nothing is taken away: to change an index or a branch after the run could lose
// work. What is new under sealed names is told, in the index and in every commit
// that refs lead to and did not before, also names that are gone from there, and
// refs that have git read one object instead of another. What somebody else stages
// or commits while the run is under way is told as well: nothing says who it was.
//
// The repositories are a stranger's to write; package gitrepo reads them, bounded
// and without git. What cannot be read whole is told by its own name.
package committed

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"palyra/internal/gitrepo"
	"palyra/internal/seal"
)

// Bounds of a look.
const (
	maxRepositories = 256 // that are looked at
	maxPaths        = 200 // that are told of
	settle          = 2 * time.Second
)

// State is what the repositories of a workspace have. It does not change.
type State struct{ repos map[string]repo }

// repo is one of them.
type repo struct {
	refs  map[string]gitrepo.ID
	index map[string]gitrepo.IndexEntry // what of it is sealed
	file  fs.FileInfo                   // the index; nil: there is none
	firm  bool                          // the index was last changed long enough ago for its times to tell of the next change
	err   error
}

// Found is what came in.
type Found struct {
	Paths  []string // sealed names, behind the directory of the repository or of its work tree, relative to the workspace
	More   int64    // beyond those
	Unread []string // repositories that cannot be looked through
}

// Watch is a look at a workspace before a run.
type Watch struct {
	root   *os.Root
	names  *seal.Matcher
	start  seal.Spot
	dirs   []string
	before *State
}

// Begin looks at the repositories of a workspace, which lie in dirs, before a run.
// was is an earlier look, or nil. What cannot be read is told by End.
func Begin(ctx context.Context, workspace string, names, dirs []string, was *State) (*Watch, error) {
	m, err := seal.Compile(names)
	if err != nil {
		return nil, err
	}
	start, err := m.Start(workspace)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("committed: %w", err)
	}
	w := &Watch{root: root, names: m, start: start, dirs: dirs[:min(len(dirs), maxRepositories)]}
	w.before = w.look(ctx, was)
	return w, nil
}

// Close gives back what is open.
func (w *Watch) Close() { _ = w.root.Close() }

// End says what came in since Begin, and what there is now.
func (w *Watch) End(ctx context.Context) (Found, *State) {
	after := w.look(ctx, w.before)
	paths, unread := map[string]bool{}, map[string]bool{}
	for _, dir := range w.dirs {
		c := comparison{w: w, dir: dir, top: workTree(dir), was: w.before.repos[dir], is: after.repos[dir], found: paths}
		if err := c.run(ctx); err != nil {
			unread[dir] = true
		}
	}
	out := Found{Paths: slices.Sorted(maps.Keys(paths)), Unread: slices.Sorted(maps.Keys(unread))}
	if n := len(out.Paths); n > maxPaths {
		out.Paths, out.More = out.Paths[:maxPaths], int64(n-maxPaths)
	}
	return out, after
}

// workTree is the directory whose files a repository is of, as far as its own place
// tells.
func workTree(dir string) string {
	if path.Base(dir) == ".git" {
		return path.Dir(dir)
	}
	return dir
}

// look reads refs and indexes.
func (w *Watch) look(ctx context.Context, was *State) *State {
	out := &State{repos: map[string]repo{}}
	for _, dir := range w.dirs {
		var before repo
		if was != nil {
			before = was.repos[dir]
		}
		out.repos[dir] = w.lookAt(ctx, dir, before)
	}
	return out
}

func (w *Watch) lookAt(ctx context.Context, dir string, was repo) (out repo) {
	began := time.Now()
	r, err := gitrepo.Open(ctx, w.root, dir)
	if err != nil {
		return repo{err: err}
	}
	defer r.Close()
	if out.refs, out.err = r.Refs(); out.err != nil {
		return out
	}
	if out.file, out.err = r.IndexInfo(); out.err != nil {
		return out
	}
	out.firm = out.file == nil || changed(out.file).Add(settle).Before(began)
	if was.err == nil && was.index != nil && was.firm && sameFile(was.file, out.file) {
		out.index = was.index
		return out
	}
	out.index = map[string]gitrepo.IndexEntry{}
	f := w.follow(workTree(dir))
	out.err = r.Index(func(p []byte, e gitrepo.IndexEntry) error {
		if f.sealed(p, e.IsLink()) {
			out.index[string(p)] = e
		}
		return nil
	})
	return out
}

// sameFile reports whether two looks were at one file with one content.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changed(a).Equal(changed(b))
}

// spot is a directory, as the names see it.
type spot struct {
	seal.Spot
	in bool // it is sealed or kept, or in what is
}

func (w *Watch) step(at spot, name string, link bool) (next spot, sealed bool) {
	s, seals, keeps := w.names.Step(at.Spot, name)
	next = spot{s, at.in || seals || keeps}
	return next, next.in || link && s.Begun()
}

// top is the directory of a work tree. That the repository itself lies in a
// directory that is sealed says nothing of what is in it.
func (w *Watch) top(dir string) spot {
	at := spot{Spot: w.start}
	for part := range strings.SplitSeq(dir, "/") {
		if part != "." && part != "" {
			at, _ = w.step(at, part, false)
		}
	}
	at.in = false
	return at
}

// follower asks about the paths of an index, which are sorted: what is known of a
// directory holds for all that is in it.
type follower struct {
	w     *Watch
	dirs  []string
	spots []spot // one more than dirs
}

func (w *Watch) follow(dir string) *follower { return &follower{w: w, spots: []spot{w.top(dir)}} }

// sealed reports whether a path is.
func (f *follower) sealed(p []byte, link bool) bool {
	rest, depth := string(p), 0
	for {
		name, below, more := strings.Cut(rest, "/")
		if !more {
			_, yes := f.w.step(f.spots[depth], name, link)
			return yes
		}
		if depth >= len(f.dirs) || f.dirs[depth] != name {
			next, _ := f.w.step(f.spots[depth], name, false)
			f.dirs = append(f.dirs[:depth], name)
			f.spots = append(f.spots[:depth+1], next)
		}
		rest = below
		depth++
	}
}
