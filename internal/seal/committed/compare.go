package committed

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/gitrepo"
)

// The limits of a comparison.
const (
	maxCommits = 5_000 // commits read to find the new ones
	maxTips    = 64    // old refs, besides those that moved, from which the search starts
	maxFound   = 10_000
	maxDepth   = 256 // directories of a tree
)

// replaces is the directory of refs that have git read one object instead of another.
const replaces = "refs/replace/"

// comparison compares one repository before and after a run.
type comparison struct {
	w        *Watch
	dir, top string
	was, is  repo
	files    gitrepo.Files // of what is
	every    bool          // what is staged is told also where the present commit has it
	found    map[string]bool
	r        *gitrepo.Repository
}

// run adds the sealed names that came in. An error means that some may be missing.
func (c *comparison) run(ctx context.Context) (err error) {
	if c.was.err != nil || c.is.err != nil {
		if c.is.err != nil && c.was.err != nil && c.was.firm && c.was.file != nil && sameFile(c.was.file, c.is.file) &&
			maps.Equal(c.was.refs, c.is.refs) {
			return nil // unchanged, and could not be read before
		}
		return errors.Join(c.is.err, c.was.err)
	}
	staged := c.staged()
	if len(staged) == 0 && maps.Equal(c.was.refs, c.is.refs) {
		return nil
	}
	if c.r, err = gitrepo.Open(ctx, c.files, c.dir); err != nil {
		return err
	}
	defer c.r.Close()
	err = c.commits()
	for _, p := range staged { // a path in the commit of HEAD is reported with that commit, or was there before
		if in, known := c.head(p); c.every || !known || in != c.is.index[p] {
			c.tell(path.Join(c.top, p))
		}
	}
	return err
}

func (c *comparison) tell(p string) {
	if len(c.found) < maxFound {
		c.found[p] = true
	}
}

// staged returns the sealed paths whose entries in the index are new, changed or removed.
func (c *comparison) staged() (out []string) {
	for p, e := range c.is.index {
		if c.was.index[p] != e {
			out = append(out, p)
		}
	}
	for p := range c.was.index {
		if _, still := c.is.index[p]; !still {
			out = append(out, p)
		}
	}
	return out
}

// head returns the entry of the present commit at a path; the empty entry for a missing path.
func (c *comparison) head(p string) (e gitrepo.IndexEntry, known bool) {
	e, err := c.r.At(c.is.refs["HEAD"], p)
	return e, err == nil
}

// commits checks every commit that refs lead to now and did not before.
func (c *comparison) commits() error {
	known := map[gitrepo.ID]bool{}
	for _, id := range c.was.refs {
		known[id] = true
	}
	var tips, old []gitrepo.ID
	for _, name := range slices.Sorted(maps.Keys(c.is.refs)) {
		id, was := c.is.refs[name], c.was.refs[name]
		if id == was {
			continue
		}
		if strings.HasPrefix(name, replaces) {
			c.tell(path.Join(c.dir, name))
		}
		if was != "" {
			old = append(old, was)
		}
		if known[id] {
			continue
		}
		tip, commit, err := c.r.Peel(id)
		if err != nil {
			return err
		}
		if commit {
			tips = append(tips, tip)
		}
	}
	if len(tips) == 0 {
		return nil
	}
	if id := c.was.refs["HEAD"]; id != "" {
		old = append(old, id)
	}
	for _, name := range slices.Sorted(maps.Keys(c.was.refs)) {
		if len(old) < maxTips {
			old = append(old, c.was.refs[name])
		}
	}
	return c.each(tips, old, known)
}

// each finds the new commits and compares each with its parents.
func (c *comparison) each(tips, old []gitrepo.ID, known map[gitrepo.ID]bool) error {
	h := &history{r: c.r, seen: map[gitrepo.ID]*visited{}, known: known}
	fresh, err := h.fresh(tips, old)
	if err != nil {
		return err
	}
	for _, commit := range fresh {
		var parents []gitrepo.ID
		for _, p := range commit.Parents {
			o, err := c.r.Commit(p)
			if err != nil {
				return err
			}
			parents = append(parents, o.Tree)
		}
		if len(parents) == 0 {
			parents = []gitrepo.ID{""}
		}
		if err := c.tree(commit.Tree, parents, "", c.w.top(c.top), 0); err != nil {
			return err
		}
	}
	return nil
}

// tree compares a directory with the same one in the parents: an entry that one of them has came from there.
func (c *comparison) tree(id gitrepo.ID, parents []gitrepo.ID, at string, s spot, depth int) error {
	if slices.Contains(parents, id) {
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("committed: %w: directories are nested too deeply", gitrepo.ErrUnreadable)
	}
	now, err := c.entries(id)
	if err != nil {
		return err
	}
	before := make([]map[string]gitrepo.IndexEntry, len(parents))
	names := maps.Clone(now)
	for i, p := range parents {
		if before[i], err = c.entries(p); err != nil {
			return err
		}
		if i == 0 {
			maps.Copy(names, before[i]) // a name that is gone from all parents is in the first
		}
	}
	for name := range names {
		if err := c.entry(name, now[name], before, at, s, depth); err != nil {
			return err
		}
	}
	return nil
}

// entry compares one name of a directory.
func (c *comparison) entry(name string, e gitrepo.IndexEntry, before []map[string]gitrepo.IndexEntry, at string, s spot, depth int) error {
	link, dir := e.IsLink(), e.IsTree()
	subs := make([]gitrepo.ID, len(before))
	for i, b := range before {
		was := b[name]
		if was == e {
			return nil
		}
		if was.IsTree() {
			subs[i], dir = was.ID, true
		}
		link = link || was.IsLink()
	}
	p := path.Join(at, name)
	next, sealed := c.w.step(s, name, link)
	if staged := c.was.index[p]; sealed && (!e.IsTree() || link) && staged != e { // otherwise it had been staged before the run
		c.tell(path.Join(c.top, p))
	}
	if !dir {
		return nil
	}
	id := e.ID
	if !e.IsTree() {
		id = ""
	}
	return c.tree(id, subs, p, next, depth+1)
}

func (c *comparison) entries(id gitrepo.ID) (map[string]gitrepo.IndexEntry, error) {
	list, err := c.r.Tree(id)
	if err != nil {
		return nil, err
	}
	m := make(map[string]gitrepo.IndexEntry, len(list))
	for _, e := range list {
		m[e.Name] = e.IndexEntry
	}
	return m, nil
}

// history finds the commits that new refs lead to and old ones do not.
type history struct {
	r     *gitrepo.Repository
	seen  map[gitrepo.ID]*visited
	known map[gitrepo.ID]bool // commits that refs led to before
	queue queue
	open  int // commits in the queue that are not known to be old
}

// visited is a commit on the way.
type visited struct {
	gitrepo.Commit
	id     gitrepo.ID
	old    bool // old refs lead there
	queued bool
}

// fresh returns the commits that tips lead to and old does not.
func (h *history) fresh(tips, old []gitrepo.ID) ([]gitrepo.Commit, error) {
	for _, id := range old {
		if tip, commit, err := h.r.Peel(id); err == nil && commit {
			_ = h.add(tip, true) // a missing commit hides nothing
		}
	}
	for _, id := range tips {
		if err := h.add(id, false); err != nil {
			return nil, err
		}
	}
	for h.open > 0 {
		v := heap.Pop(&h.queue).(*visited)
		if v.queued = false; !v.old {
			h.open--
		}
		for _, p := range v.Parents {
			if err := h.add(p, v.old); err != nil && !v.old {
				return nil, err
			}
		}
	}
	var out []gitrepo.Commit
	for _, v := range h.seen {
		if !v.old {
			out = append(out, v.Commit)
		}
	}
	return out, nil
}

// add puts a commit into the queue, again when it is found to be old.
func (h *history) add(id gitrepo.ID, old bool) error {
	old = old || h.known[id]
	v := h.seen[id]
	switch {
	case v == nil:
		if len(h.seen) >= maxCommits {
			return fmt.Errorf("committed: %w: more than %d commits have to be looked at", gitrepo.ErrUnreadable, maxCommits)
		}
		c, err := h.r.Commit(id)
		if err != nil {
			return err
		}
		v = &visited{Commit: c, id: id, old: old}
		h.seen[id] = v
	case old && !v.old:
		if v.old = true; v.queued {
			h.open--
			return nil
		}
	default:
		return nil
	}
	if !v.old {
		h.open++
	}
	v.queued = true
	heap.Push(&h.queue, v)
	return nil
}

// queue is a heap of commits, the youngest first.
type queue []*visited

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].When > q[j].When }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(*visited)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	*q = (*q)[:last]
	return v
}
