package trusted

import (
	"path"
	"strings"
	"sync"
)

// unfinished are names of git's own that hold commands while a rebase or a series of picks has stopped on its way. They
// are on no other list, since git could not work if they were held; that they are left behind is worth a look.
var unfinished = []string{
	".git/rebase-merge", ".git/rebase-apply", ".git/sequencer",
	".git/modules/**/rebase-merge", ".git/modules/**/rebase-apply", ".git/modules/**/sequencer",
	".git/worktrees/**/rebase-merge", ".git/worktrees/**/rebase-apply", ".git/worktrees/**/sequencer",
}

// held are the rules for what runs change: of names, and of repositories by what is in them.
var held = sync.OnceValue(func() (r struct {
	names map[string][]rule
	repos []rule
},
) {
	var names []Name
	for _, n := range list() {
		if n.Care != Held {
			continue
		}
		names = append(names, n)
		if rest, ok := strings.CutPrefix(n.Name, Repository+"/"); ok && rest != "" {
			n.Name = rest
			r.repos = append(r.repos, compile([]Name{n})...)
		}
	}
	for _, n := range unfinished {
		names = append(names, Name{Name: n, Care: Held})
	}
	r.names = index(compile(names))
	return r
})

// Place is what is known of the workspace that a changed path is in.
type Place struct {
	// Repository reports whether git takes a directory for a repository, by what is in it after the run.
	Repository func(dir string) bool
}

// Changed is for what runs did, as Write is for what a tool says it will do: what ordinary work writes below .git is not
// meant, nor is what only a tool's write is asked about. It reports whether a path, relative to a workspace and
// clean, is one that other programs obey: by its name, or
// because the directory around it is a repository. Whole says that the entry itself appeared, went or became something
// else; link, that it is or was a symbolic link. Below node_modules only git's own names count.
func (w Place) Changed(p string, whole, link bool) bool {
	parts := make([]string, 0, 8)
	for part := range strings.SplitSeq(p, "/") {
		parts = append(parts, string(Fold(nil, part)))
	}
	rules, below := held(), false
	for i, part := range parts {
		for _, r := range rules.names[part] {
			if (!below || r.parts[0] == ".git") && r.changed(parts[i:], whole, link) {
				return true
			}
		}
		if !below {
			for _, r := range rules.names["*"] {
				if r.changed(parts[i:], whole, link) {
					return true
				}
			}
		}
		below = below || part == "node_modules"
	}
	return w.inRepository(p, parts, whole, link)
}

// inRepository looks for directories around a path that are repositories without being called so.
func (w Place) inRepository(p string, parts []string, whole, link bool) bool {
	if w.Repository == nil {
		return false
	}
	names := strings.Split(p, "/")
	for i := range parts {
		if parts[i] == ".git" {
			return false // it is found by its name
		}
		for _, r := range held().repos {
			if r.changed(parts[i:], whole, link) && w.Repository(path.Join(names[:i]...)) {
				return true
			}
		}
	}
	return false
}

// changed reports whether the rule is about a path, from where its name should begin.
func (r rule) changed(parts []string, whole, link bool) bool {
	segs := r.parts
	for {
		switch {
		case len(segs) == 0 && strings.HasSuffix(r.name.Name, "/"):
			return len(parts) == 0 && whole // what is in such a directory may change
		case len(segs) == 0:
			return true
		case len(parts) == 0:
			return link && len(segs) < len(r.parts) // it stands where the name goes on, and leads elsewhere
		case segs[0] == "**":
			for i := range parts {
				if (rule{r.name, segs[1:], r.deep}).changed(parts[i:], whole, link) {
					return true
				}
			}
			return link // on the way to the rest of the name
		}
		if ok, err := path.Match(segs[0], parts[0]); err != nil || !ok {
			return false
		}
		segs, parts = segs[1:], parts[1:]
	}
}
