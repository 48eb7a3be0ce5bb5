package tiers

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/gitrepo"
	"palyra/internal/gitwork"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
	"palyra/internal/seal/committed"
	"palyra/internal/subpath"
)

// gitWithin is how long git's repositories may be looked through for what a run did to them. What is not looked
// through by then counts as if other programs obeyed it.
const gitWithin = 20 * time.Second

// git is what a run did to git's repositories.
func (t *Tiers) git(ctx context.Context, c *palyra.Call, left sandbox.Left) effects.Git {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gitWithin)
	defer cancel()
	dirs := repositories(left)
	found, err := committed.Compare(ctx, c.Plan.Workspace.Path, seal.Default, dirs, left.Before, left.After)
	if err != nil {
		t.Log.Error("what a run brought into git's index and commits cannot be told", "call", c.ID, "err", err)
		found = committed.Found{Unread: dirs}
	}
	for _, dir := range dirs {
		if err := verified(ctx, left, dir); err != nil {
			t.Log.Warn("what a run wrote into a repository cannot be verified", "call", c.ID, "err", err)
			found.Unread = append(found.Unread, dir)
		}
	}
	own := ""
	if r := c.Plan.Workspace.Repository; r.Dir != "" {
		own = path.Join(".git", r.Dir)
	}
	lost := gitwork.Look(ctx, left.Before, left.After, gitChanges(left.Changes), own)
	return effects.Git{
		Trusted: found.Paths, More: found.More + lost.Omitted, Unread: found.Unread,
		Uncommitted: lost.Uncommitted, Rewound: lost.Rewound, Share: lost.Share,
	}
}

// unlogged reports whether refs of a repository outside lead elsewhere, which undo does not put back, and git does not
// remember where they led.
func (t *Tiers) unlogged(ctx context.Context, c *palyra.Call, left sandbox.Left) bool {
	if c.Plan.Workspace.Repository.Path == "" || left.Before == nil || left.After == nil ||
		!slices.ContainsFunc(left.Changes, func(c palyra.Change) bool {
			name, in := subpath.Rel(".git", c.Path.Raw())
			return in && c.Was != nil && (name == "packed-refs" || subpath.Below("refs", name))
		}) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gitWithin)
	defer cancel()
	return gitwork.Unlogged(ctx, left.Before, left.After, ".git")
}

// verified finds out whether what a run put into a repository's store is what it is called by.
func verified(ctx context.Context, left sandbox.Left, dir string) error {
	var names []string
	for _, c := range left.Changes {
		if c.Now == nil || c.Now.Kind != palyra.PathFile && c.Now.Kind != palyra.PathLink {
			continue
		}
		if name, in := subpath.Rel(dir, c.Path.Raw()); in && subpath.Below("objects", name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	r, err := gitrepo.Open(ctx, left.After, dir)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Verify(names)
}

func gitChanges(all []palyra.Change) []gitwork.Change {
	out := make([]gitwork.Change, 0, len(all))
	for _, c := range all {
		g := gitwork.Change{Path: c.Path.Raw()}
		if s := c.Was; s != nil && s.Kind == palyra.PathFile {
			g.Had, g.Was, g.Size = true, string(s.Digest), s.Size
		}
		if s := c.Now; s != nil && s.Kind == palyra.PathFile {
			g.Has, g.Now, g.Left = true, string(s.Digest), s.Size
		}
		out = append(out, g)
	}
	return out
}

// repositories are the directories that git takes for repositories, after the run, and in which the run changed
// something that says what is in them.
func repositories(left sandbox.Left) (dirs []string) {
	known := map[string]bool{}
	for _, c := range left.Changes {
		parts := strings.Split(c.Path.Raw(), "/")
		for i, part := range parts {
			switch part {
			case "HEAD", "index", "packed-refs", "refs", "objects", "commondir", "config":
				dir := path.Join(append([]string{"."}, parts[:i]...)...)
				if _, looked := known[dir]; !looked {
					known[dir] = isRepository(left.After, dir)
				}
			}
		}
	}
	for dir, is := range known {
		if is {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// mostNames is more than a repository's own directory has.
const mostNames = 4_096

// isRepository reports whether git takes a directory for one, by the names in it: whatever they lead to, it may.
func isRepository(files gitrepo.Files, dir string) bool {
	names, err := files.ReadDir(dir, mostNames)
	if err != nil || len(names) > mostNames {
		return slices.Contains(strings.Split(dir, "/"), ".git")
	}
	has := map[string]bool{}
	for _, n := range names {
		has[n.Name()] = true
	}
	return has["HEAD"] && (has["objects"] && has["refs"] || has["commondir"])
}
