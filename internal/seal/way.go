package seal

import (
	"path/filepath"
	"strings"

	"palyra/internal/trusted"
)

// way is what the names make of the path that leads to a workspace.
type way struct {
	start []place  // how far names have come at the workspace itself
	repos []string // the directories above it that git takes for repositories
}

// way follows the names from the root of the file system to the workspace. What
// is sealed does not become free by being called a workspace: one in or below a
// sealed or kept path is refused, and one on the way to such a path has it sealed
// as the directory above would.
func (m *Matcher) way(workspace string) (way, error) {
	var out way
	var state int32
	dir := "/"
	for _, name := range strings.Split(strings.Trim(workspace, "/"), "/") {
		folded := trusted.Fold(nil, name)
		keeps := false
		if len(m.repos) > 0 && repositoryAt(dir) {
			state, keeps = m.enter(state)
			out.repos = append(out.repos, dir)
		}
		what, next := m.step(state, folded, false)
		path := filepath.Join(dir, name)
		if what != free || keeps && gitOwn(folded) {
			return way{}, notHere(workspace, path, dir)
		}
		state, dir = next, path
	}
	out.start = append(out.start, m.sets[state]...)
	return out, nil
}

// notHere refuses a workspace for what is sealed above it.
func notHere(workspace, path, instead string) error {
	if workspace == path {
		return denied("%q is a sealed path, or one whose content is: it cannot be a workspace", workspace).
			WithRemedy("use the root of the repository as the workspace, %s perhaps", instead)
	}
	return denied("the workspace %q lies in %q, which is a sealed path, or one whose content is", workspace, path).
		WithRemedy("use the root of the repository as the workspace, %s perhaps", instead)
}

// gitOwn reports whether a repository has a directory of the name for itself.
// Others in it can be working trees.
func gitOwn(name []byte) bool {
	switch string(name) {
	case "branches", "hooks", "info", "lfs", "modules", "rebase-apply", "rebase-merge", "sequencer", "worktrees":
		return true
	}
	return stored(name)
}
