package seal

import (
	"path/filepath"
	"strings"

	"palyra/internal/seal/sealname"
	"palyra/internal/trusted"
)

// way is the state of the names on the path to a workspace.
type way struct {
	start []sealname.Place // state of the names at the workspace itself
	repos []string         // repositories above the workspace
}

// wayOf follows the names from the root of the file system to the workspace. A sealed path does not
// become free by being called a workspace: one in or below a sealed or kept path is refused, and
// one on the way to such a path has it sealed as the directory above would.
func wayOf(m *Matcher, workspace string) (way, error) {
	var out way
	var state int32
	dir := "/"
	for _, name := range strings.Split(strings.Trim(workspace, "/"), "/") {
		folded := trusted.Fold(nil, name)
		keeps := false
		if m.Repositories() && repositoryAt(dir) {
			state, keeps = m.Into(state)
			out.repos = append(out.repos, dir)
		}
		what, next := m.Next(state, folded, false)
		path := filepath.Join(dir, name)
		if what != sealname.Free || keeps && gitOwn(folded) {
			return way{}, notHere(workspace, path, dir)
		}
		state, dir = next, path
	}
	out.start = append(out.start, m.Places(state)...)
	return out, nil
}

// notHere refuses a workspace because of a sealed path above it.
func notHere(workspace, path, instead string) error {
	if workspace == path {
		return denied("%q is a sealed path, or one whose content is: it cannot be a workspace", workspace).
			WithRemedy("use the root of the repository as the workspace, %s perhaps", instead)
	}
	return denied("the workspace %q lies in %q, which is a sealed path, or one whose content is", workspace, path).
		WithRemedy("use the root of the repository as the workspace, %s perhaps", instead)
}

// gitOwn reports whether a repository has a directory of the name for itself. Others in it can be working trees.
func gitOwn(name []byte) bool {
	switch string(name) {
	case "branches", "hooks", "info", "lfs", "modules", "rebase-apply", "rebase-merge", "sequencer", "worktrees":
		return true
	}
	return sealname.InStore(name)
}

// Start follows the names from the root of the file system to a workspace, an absolute path without
// links. It refuses a workspace that is sealed, or lies in a sealed directory.
func Start(m *Matcher, workspace string) (Spot, error) {
	w, err := wayOf(m, workspace)
	if err != nil {
		return Spot{}, err
	}
	return m.From(w.start), nil
}
