package wholeagent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/profile"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

// reach are the directories in which agents write: what this start gives to one, and all that are registered, as far as the
// caller can ask for them.
func reach(ctx context.Context, inv *invocation.Invocation, given *proposal.Options) (dirs []string) {
	add := func(dir string) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if filepath.IsAbs(dir) && dir != "/" {
			dirs = append(dirs, dir)
		}
	}
	if here, err := inv.WorkspaceOf(given.Workspace); err == nil {
		add(here)
	}
	for _, dir := range given.Within {
		add(dir)
	}
	c, err := inv.OperatorAs(nil)
	if err != nil {
		return dirs
	}
	defer c.Close()
	known, err := c.Workspaces(ctx)
	if err != nil {
		return dirs
	}
	for _, w := range known {
		add(w.Path)
	}
	return dirs
}

// find finds the program, and what of the machine its room must see for it. One that lies where agents write, or is found by
// way of it, is refused: an agent could have put it there, to become the next start's program with what that is granted.
func (st *Start) find(inv *invocation.Invocation, s Setup, f *profile.Furnishing, writable []string) (real string, err error) {
	path, _ := inv.Variable("PATH")
	for _, dir := range filepath.SplitList(path) {
		at := filepath.Join(dir, s.Program)
		info, err := os.Stat(at)
		if !filepath.IsAbs(dir) || err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if real, err = filepath.EvalSymlinks(at); err != nil {
			continue
		}
		for _, step := range way(at) {
			if i := slices.IndexFunc(writable, func(w string) bool { return subpath.Within(w, step) }); i >= 0 {
				return "", exit.Failedf(palyra.ReasonNotExecutable, "the first %s on your path, %s, lies in %s, where agents write: it may be theirs",
					s.Program, show.Arg(at), show.Arg(writable[i])).
					WithRemedy("take %s out of PATH, or put the directory of one that you installed outside of workspaces before it; "+
						"to run this one all the same: palyra agent run -- %[2]s", show.Arg(dir), show.Arg(at))
			}
		}
		st.Program = at
		if dir := packageDir(real); !ofTheSystem(real) {
			f.Mounts = []string{dir}
		}
		return real, nil
	}
	return "", exit.Failedf(palyra.ReasonNotExecutable, "%s is not here: there is no program %s on your path", s.Title, s.Program).
		WithRemedy("install it, or add its directory to PATH; for a command of your own: palyra agent run -- CMD")
}

// mostLinks is how many links in a row are followed, as the kernel does.
const mostLinks = 40

// way are the links over which a path leads to its file, and that file, each with no link before its last element.
func way(at string) (steps []string) {
	done, rest := "/", strings.Split(at, "/")
	for links := 0; len(rest) > 0 && links <= mostLinks; {
		word := rest[0]
		rest = rest[1:]
		switch word {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, word)
		to, err := os.Readlink(next)
		if err != nil {
			done = next
			continue
		}
		links++
		steps = append(steps, next)
		if filepath.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return append(steps, done)
}
