package gitlink

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/subpath"
	"palyra/internal/trusted"
)

// fixed are the names in a repository's directory, and in that of a work tree's own state, that no run changes: other
// programs obey them, or they say where the rest is.
var fixed = strings.Fields(
	"config config.worktree hooks info commondir gitdir modules branches remotes lfs rr-cache sl safe locked description")

// shared are what commits of any work tree write in the repository's directory.
var shared = strings.Fields("objects refs logs packed-refs shallow gc.log gc.pid")

// own are what git writes for one work tree, beside the names in capitals that it gives to states of a merge.
var own = strings.Fields("index logs refs rebase-merge rebase-apply sequencer")

// alternates name objects of elsewhere.
var alternates = strings.Fields("objects/info/alternates objects/info/http-alternates")

// Writes reports whether git, in a work tree whose own state is in dir, writes to a path below the repository's
// directory in ordinary work. Names are compared as file systems do that ignore case.
func Writes(dir, p string) bool {
	if folded := foldPath(p); slices.Contains(alternates, folded) {
		return false
	}
	if slices.Contains(shared, first(p)) {
		return true
	}
	if dir == "" {
		return isOwn(p)
	}
	if othersLog(dir, p) { // collecting garbage writes those of all
		return true
	}
	rest, in := subpath.Rel(dir, p)
	return in && rest != "." && isOwn(rest)
}

// Lasts reports whether nothing puts back what a change takes from a path that Writes allows: an object, or what another
// work tree remembers. Whether refs stand in logs, gitwork tells.
func Lasts(dir, p string) bool { return subpath.Below("objects", p) || othersLog(dir, p) }

// othersLog reports whether a path is of what another work tree remembers.
func othersLog(dir, p string) bool {
	parts := strings.Split(p, "/")
	return len(parts) > 3 && parts[0] == worktrees && parts[2] == "logs" && !subpath.Within(dir, p)
}

// isOwn reports whether a path is of a work tree's own state.
func isOwn(p string) bool {
	name := strings.TrimSuffix(first(p), ".lock") // a git that was ended leaves one
	folded := trusted.Folded(name)
	if slices.Contains(fixed, folded) || slices.Contains(shared, folded) && !slices.Contains(own, folded) || folded == worktrees {
		return false
	}
	return slices.Contains(own, name) || strings.HasPrefix(name, "sharedindex.") || capitals(name)
}

// capitals reports whether a name is of the kind that git gives to states: ORIG_HEAD, MERGE_MSG.
func capitals(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// Fixed lists the paths below a repository's directory that a run in a work tree finds read-only, as far as they are
// there.
func Fixed(dir string) (paths []string) {
	paths = append(paths, fixed...)
	if dir == "" {
		return append(paths, worktrees)
	}
	paths = append(paths, "HEAD", "index")
	for _, name := range fixed {
		paths = append(paths, path.Join(dir, name))
	}
	return paths
}

func first(p string) string {
	name, _, _ := strings.Cut(p, "/")
	return name
}

func foldPath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = trusted.Folded(parts[i])
	}
	return strings.Join(parts, "/")
}
