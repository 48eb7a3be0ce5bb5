package seal

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/gitfile"
	"palyra/internal/seal/owngit"
	"palyra/internal/seal/sealname"
	"palyra/internal/subpath"
)

// errOther means that the names lead elsewhere than before, or to nothing any more.
var errOther = errors.New("seal: sealed paths lead elsewhere")

// anchored adds the anchors that the names of s lead to. again: they lead to more than was known when s was made.
func (s *Snapshot) anchored(t *tree) (again bool, err error) {
	anchors, err := t.leads(s)
	if err != nil {
		return false, err
	}
	bare := t.intoModules(s)
	if len(anchors) > sealname.MaxAnchors {
		return false, denied("links and git's configuration lead from sealed paths to more than %d others", sealname.MaxAnchors).
			WithRemedy("remove links, or unseal names in a profile")
	}
	for _, a := range s.match.Held() {
		if !slices.Contains(anchors, a) {
			return true, errOther
		}
	}
	known := len(s.match.Held())
	s.match.AnchorAll(anchors)
	again = len(s.match.Held()) > known || !maps.Equal(bare, s.bare)
	s.bare = bare
	return again, nil
}

// leadsAsKnown reports whether sealed paths lead where they are known to. It leaves the names
// unchanged, because others use them.
func (s *Snapshot) leadsAsKnown(t *tree) bool {
	anchors, err := t.leads(s)
	return err == nil && len(anchors) == len(s.match.Held()) && !slices.ContainsFunc(anchors,
		func(a sealname.Anchor) bool { return !slices.Contains(s.match.Held(), a) }) &&
		maps.Equal(t.intoModules(s), s.bare)
}

// isConfig reports whether a sealed file of a repository is its configuration.
func isConfig(path string) bool {
	name := strings.ToLower(path[len(path)-baseLen(path):])
	return name == "config" || name == "config.worktree"
}

// unreadable refuses a configuration that cannot be understood completely: it could have git run
// files that nothing holds.
func unreadable(file, why string) error {
	return denied("git's configuration %q %s, so what it leads to cannot be sealed", file, why).
		WithRemedy("make it smaller, remove it, or use a workspace without it")
}

// configured returns the anchors for everything that a repository's configuration refers to:
// directories of hooks, files that it includes, programs that it names.
func (t *tree) configured(s *Snapshot, e watchedPath) (out []sealname.Anchor, err error) {
	dir := strings.TrimSuffix(e.path[:len(e.path)-baseLen(e.path)], "/")
	_, first, in := t.follow(s.workspace, e.path) // the configuration can be a link
	if !in {
		return nil, nil
	}
	linked, err := t.linked(s, dir)
	if err != nil {
		return nil, err
	}
	files, seen := []string{first}, map[string]bool{}
	for len(files) > 0 {
		file := files[0]
		files = files[1:]
		if seen[file] {
			continue
		}
		if seen[file] = true; len(seen) > owngit.MaxIncludes+1 {
			return nil, unreadable(e.path, fmt.Sprintf("includes more than %d files", owngit.MaxIncludes))
		}
		text, large := t.limited(file)
		if large {
			return nil, unreadable(file, fmt.Sprintf("is larger than %d KiB", gitfile.MaxFile>>10))
		}
		set, err := owngit.Settings(file, text)
		if err != nil {
			return nil, overdone(err)
		}
		tops := append(worktrees(dir, set), linked...)
		for _, r := range gitfile.References(set) {
			from := tops
			if r.Include {
				from = []string{filepath.Dir(file), dir}
			}
			anchors, ends := t.meant(s, from, r)
			out = append(out, anchors...)
			if r.Include {
				files = append(files, ends...)
			}
		}
		if file == first && strings.HasSuffix(strings.ToLower(e.path), "config") {
			for _, r := range t.personal() {
				anchors, _ := t.meant(s, tops, r)
				out = append(out, anchors...)
			}
		}
	}
	return out, nil
}

// meant returns the anchors for the references of one setting, and where they end in the workspace.
func (t *tree) meant(s *Snapshot, from []string, r gitfile.Reference) (out []sealname.Anchor, ends []string) {
	for _, p := range s.inWorkspace(t, from, r.Path) {
		anchors, end, in := t.reach(s.workspace, p)
		out = append(out, anchors...)
		switch {
		case !in:
			continue
		case end == "" && r.Hooks:
			for _, h := range gitfile.HookNames {
				out = append(out, sealname.Anchor{Path: h, Rule: -1})
			}
		case end != "" && (r.Hooks || !t.isDir(end)):
			out = append(out, sealname.Anchor{Path: end, Rule: -1})
		}
		ends = append(ends, end)
	}
	return out, ends
}

// worktrees returns the directories from which git reads relative paths in a repository's
// configuration: it depends on where git is started.
func worktrees(dir string, set []gitfile.Setting) []string {
	out := []string{dir, filepath.Dir(dir)}
	for _, s := range set {
		if s.Section == "core" && s.Key == "worktree" {
			out = append(out, filepath.Join(dir, s.Value))
		}
	}
	return out
}

// inWorkspace returns the paths of the workspace that a configuration can mean.
func (s *Snapshot) inWorkspace(t *tree, from []string, path string) (out []string) {
	if rest, home := strings.CutPrefix(path, "~/"); home {
		if path = t.home(); path == "" {
			return nil
		}
		path = filepath.Join(path, rest)
	}
	if strings.ContainsRune(path, 0) || path == "" {
		return nil
	}
	if filepath.IsAbs(path) {
		if rel, in := subpath.Rel(s.workspace, filepath.Clean(path)); in {
			out = append(out, rel)
		}
		return out
	}
	for _, dir := range from {
		if rel := filepath.Join(dir, path); filepath.IsLocal(rel) && !gitDirItself(rel) {
			out = append(out, rel)
		}
	}
	return out
}

// gitDirItself reports whether git has to write to a path.
func gitDirItself(rel string) bool { return rel == ".git" || strings.HasSuffix(rel, "/.git") }

// reach is follow, which also returns the links on the way as anchors.
func (t *tree) reach(workspace, path string) (out []sealname.Anchor, end string, in bool) {
	links, end, in := t.follow(workspace, path)
	for _, l := range links {
		out = append(out, sealname.Anchor{Path: l, Rule: -1})
	}
	return out, end, in
}

// isDir reports whether a path of the workspace is a directory.
func (t *tree) isDir(path string) bool {
	fd, err := t.open(path, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}

// small returns the content of a small file of the workspace, nil if it is not one.
func (t *tree) small(path string) []byte {
	text, _ := t.limited(path)
	return text
}

// limited is small, and also reports a file that is too large.
func (t *tree) limited(path string) (text []byte, large bool) {
	at, err := t.open(path, unix.O_PATH)
	if err != nil {
		return nil, false
	}
	defer unix.Close(at)
	st, err := t.look(at, "")
	if err != nil || st.mode&unix.S_IFMT != unix.S_IFREG || st.size > gitfile.MaxFile {
		return nil, err == nil && st.mode&unix.S_IFMT == unix.S_IFREG
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, gitfile.MaxFile+1))
	if err != nil || len(b) > gitfile.MaxFile {
		return nil, err == nil
	}
	return b, false
}
