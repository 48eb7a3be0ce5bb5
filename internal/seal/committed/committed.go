// Package committed finds sealed names that come into a workspace by git's index and commits. A run may stage and
// commit: that is ordinary work. But what it stages under a sealed name lies in no directory, so no seal holds it
// and no sweep finds it; it becomes a file with somebody's next checkout, and a workflow with their next push.
//
// Nothing is removed: to change an index or a branch after the run could lose work. It reports what is new
// under sealed names, in the index and in every commit that refs lead to now and did not before, also removed
// names, and refs that have git read one object instead of another. It also reports what somebody else stages
// or commits while the run is under way: nothing tells who did it.
//
// A run can write anything into the repositories; package gitrepo reads them, bounded and without
// git. A repository that cannot be read completely is reported by its own name.
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

// The limits of a look.
const (
	maxRepositories = 256 // repositories that are read
	maxPaths        = 200 // paths that are reported
	settle          = 2 * time.Second
)

// State is the state of the repositories of a workspace. It does not change.
type State struct{ repos map[string]repo }

// repo is the state of one repository.
type repo struct {
	refs  map[string]gitrepo.ID
	index map[string]gitrepo.IndexEntry // the sealed paths of the index
	file  fs.FileInfo                   // the index file; nil: it is missing
	firm  bool                          // the index was last changed long enough ago for its times to show the next change
	err   error
}

// Found lists the sealed names that came in.
type Found struct {
	Paths  []string // sealed names below the repository or its work tree, relative to the workspace
	More   int64    // number of further paths
	Unread []string // repositories that cannot be read completely
}

// Watch is a look at a workspace before a run.
type Watch struct {
	root   *os.Root // nil: the files are the caller's
	files  gitrepo.Files
	names  *seal.Matcher
	start  seal.Spot
	dirs   []string
	before *State
	every  bool // what is staged is told also where the present commit has it
}

// Begin looks at the repositories of a workspace, which lie in dirs, before a run. was is an
// earlier look, or nil. End reports what cannot be read.
func Begin(ctx context.Context, workspace string, names, dirs []string, was *State) (*Watch, error) {
	w, err := watch(workspace, names, dirs)
	if err != nil {
		return nil, err
	}
	if w.root, err = os.OpenRoot(workspace); err != nil {
		return nil, fmt.Errorf("committed: %w", err)
	}
	w.files = gitrepo.Root(w.root)
	w.before = w.look(ctx, was)
	return w, nil
}

func watch(workspace string, names, dirs []string) (*Watch, error) {
	m, err := seal.Compile(names)
	if err != nil {
		return nil, err
	}
	start, err := seal.Start(m, workspace)
	return &Watch{names: m, start: start, dirs: dirs[:min(len(dirs), maxRepositories)]}, err
}

// Compare says what would come in with the changes of a run, which are not the workspace's yet: by its files before
// and after them. Repositories beyond those that are looked at cannot be looked through. What is staged counts also
// where a commit has it that was there before: no change of the work tree need go with it.
func Compare(ctx context.Context, workspace string, names, dirs []string, before, after gitrepo.Files) (Found, error) {
	w, err := watch(workspace, names, dirs)
	if err != nil {
		return Found{}, err
	}
	w.files = before
	w.before = w.look(ctx, nil)
	w.files, w.every = after, true
	found, _ := w.End(ctx)
	found.Unread = append(found.Unread, dirs[len(w.dirs):]...)
	return found, nil
}

// Close closes the workspace.
func (w *Watch) Close() { _ = w.root.Close() }

// End returns what came in since Begin, and the present state.
func (w *Watch) End(ctx context.Context) (Found, *State) {
	after := w.look(ctx, w.before)
	paths, unread := map[string]bool{}, map[string]bool{}
	for _, dir := range w.dirs {
		c := comparison{
			w: w, dir: dir, top: workTree(dir), was: w.before.repos[dir], is: after.repos[dir], files: w.files, every: w.every, found: paths,
		}
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

// workTree is the work tree of a repository, as far as its place tells.
func workTree(dir string) string {
	if path.Base(dir) == ".git" {
		return path.Dir(dir)
	}
	if at := path.Dir(dir); path.Base(at) == "worktrees" && path.Base(path.Dir(at)) == ".git" {
		return path.Dir(path.Dir(at)) // it may lie elsewhere, and names count at any depth
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
	r, err := gitrepo.Open(ctx, w.files, dir)
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

// sameFile reports whether two looks found the same file, unchanged.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changed(a).Equal(changed(b))
}

// spot is a directory and the state of the names there.
type spot struct {
	seal.Spot
	in bool // it is sealed or kept, or lies in such a directory
}

func (w *Watch) step(at spot, name string, link bool) (next spot, sealed bool) {
	s, seals, keeps := w.names.Step(at.Spot, name)
	next = spot{s, at.in || seals || keeps}
	return next, next.in || link && s.Begun()
}

// top is the spot of a work tree's directory. Names count in it even when the repository itself
// lies in a sealed directory.
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

// follower matches the sorted paths of an index, and keeps the spots of the directories on the way
// for the next path.
type follower struct {
	w     *Watch
	dirs  []string
	spots []spot // one more than dirs
}

func (w *Watch) follow(dir string) *follower { return &follower{w: w, spots: []spot{w.top(dir)}} }

// sealed reports whether a path is sealed.
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
