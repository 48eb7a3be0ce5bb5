package gitwork

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/gitrepo"
)

const stash = "refs/stash"

// counted reports whether a ref keeps a person's commits: what is fetched can be fetched again.
func counted(ref string) bool {
	return ref == "HEAD" || slices.ContainsFunc([]string{"refs/heads/", "refs/tags/", "refs/notes/"}, func(kind string) bool {
		return strings.HasPrefix(ref, kind)
	})
}

// rewound are the refs that lose commits which no other ref has and git does not remember: an amended or rebased commit
// stands in the log of its branch, from where git itself puts it back.
func (c *repository) rewound() (out []string) {
	stay := map[gitrepo.ID]bool{}
	for _, id := range c.now {
		stay[id] = true
	}
	gone := map[gitrepo.ID]string{}
	for _, ref := range slices.Sorted(maps.Keys(c.refs)) { // HEAD comes first, and the branch that it is on in its place
		if id := c.refs[ref]; counted(ref) && c.now[ref] != id && !stay[id] && !c.remembered(ref, id) {
			gone[id] = ref
		}
	}
	for id, ref := range gone {
		if !c.reached(id) {
			out = append(out, ref)
		}
	}
	out = append(out, c.forgotten()...)
	if c.unstashed() {
		out = append(out, stash)
	}
	return out
}

// remembered reports whether a branch that is still there has a commit in its log after the run, and the commit is there.
func (c *repository) remembered(ref string, id gitrepo.ID) bool {
	if _, there := c.now[ref]; !there {
		return false
	}
	if _, err := c.is.Commit(id); err != nil {
		return false
	}
	text, err := c.text(c.after, path.Join(c.dir, "logs", ref), maxLog)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if slices.Contains(logged(line), id) {
			return true
		}
	}
	return false
}

// node is a commit on the way.
type node struct {
	gitrepo.Commit
	id gitrepo.ID
}

// reached reports whether a ref leads to a commit after the run. Where that cannot be found out, none does.
func (c *repository) reached(id gitrepo.ID) bool {
	tip, commit, err := c.was.Peel(id)
	if err != nil || !commit {
		return false
	}
	want, err := c.was.Commit(tip)
	if err != nil {
		return false
	}
	seen, queue := map[gitrepo.ID]bool{}, []node{}
	add := func(id gitrepo.ID) {
		if seen[id] || len(seen) >= maxCommits {
			return
		}
		seen[id] = true
		if n, err := c.is.Commit(id); err == nil {
			i, _ := slices.BinarySearchFunc(queue, n.When, func(o node, when int64) int { return cmp.Compare(when, o.When) })
			queue = slices.Insert(queue, i, node{n, id}) // the youngest first
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.now)) {
		if to, commit, err := c.is.Peel(c.now[name]); err == nil && commit {
			add(to)
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		switch {
		case n.id == tip:
			return true
		case n.When < want.When: // older than what is looked for
			return false
		}
		for _, p := range n.Parents {
			add(p)
		}
	}
	return false
}

// forgotten are refs that are there and of whose earlier commits git remembers fewer.
func (c *repository) forgotten() (out []string) {
	for _, f := range c.logs {
		ref := strings.TrimPrefix(f.Path, c.dir+"/logs/")
		if _, there := c.now[ref]; there && counted(ref) && f.Had && (!f.Has || f.Left < f.Size) {
			out = append(out, path.Join("logs", ref))
		}
	}
	return out
}

// unstashed reports whether a stash is gone that was not put back into the work tree.
func (c *repository) unstashed() bool {
	now := c.stashes(c.after, c.now)
	for id := range c.stashes(c.before, c.refs) {
		if !now[id] && !c.applied(id) {
			return true
		}
	}
	return false
}

// stashes are those that there are.
func (c *repository) stashes(from gitrepo.Files, refs map[string]gitrepo.ID) map[gitrepo.ID]bool {
	out := map[gitrepo.ID]bool{}
	if id := refs[stash]; id != "" {
		out[id] = true
	}
	text, err := c.text(from, path.Join(c.dir, "logs", stash), maxLog)
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 {
			if id, err := gitrepo.ParseID(f[1]); err == nil {
				out[id] = true
			}
		}
	}
	return out
}

// applied reports whether the run wrote every file that a stash is about.
func (c *repository) applied(id gitrepo.ID) bool {
	s, err := c.was.Commit(id)
	if err != nil || len(s.Parents) == 0 {
		return false
	}
	base, err := c.was.Commit(s.Parents[0])
	if err != nil {
		return false
	}
	written := map[string]bool{}
	for _, f := range c.all {
		written[f.Path] = true
	}
	return c.same(base.Tree, s.Tree, "", func(p string) bool { return written[path.Join(c.top, p)] })
}

// same compares two trees, but for paths of which it is said that they do not count.
func (c *repository) same(a, b gitrepo.ID, at string, but func(p string) bool) bool {
	if a == b {
		return true
	}
	was, err := c.was.Tree(a)
	now, err2 := c.was.Tree(b)
	if err != nil || err2 != nil || strings.Count(at, "/") > 256 {
		return false
	}
	names := map[string][2]gitrepo.IndexEntry{}
	for i, entries := range [][]gitrepo.TreeEntry{was, now} {
		for _, e := range entries {
			both := names[e.Name]
			both[i] = e.IndexEntry
			names[e.Name] = both
		}
	}
	for name, both := range names {
		p := path.Join(at, name)
		if both[0] == both[1] || but(p) {
			continue
		}
		if !both[0].IsTree() && !both[1].IsTree() || !c.same(treeOf(both[0]), treeOf(both[1]), p, but) {
			return false
		}
	}
	return true
}

func treeOf(e gitrepo.IndexEntry) gitrepo.ID {
	if e.IsTree() {
		return e.ID
	}
	return ""
}
