//go:build unix

package hook

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// AgentSession is what an agent's program says about where it works. A model has no part in any of it.
type AgentSession struct {
	Transcript string // the file that the session is written to
	ID         string
	Temp       string // where the program has its temporary files; "": /tmp
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{7,63}$`)

// Keeps reports whether a file is one that Claude Code keeps for this very session and tells its model to
// read: outputs that were too long (tool-results, beside the transcript) and those of commands in the
// background (tasks, below the temporary directory). A file that is reached through a link, or that has
// another name somewhere, does not count.
func (s AgentSession) Keeps(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	if fi, err := os.Lstat(real); err != nil || !fi.Mode().IsRegular() || !ownedByUs(fi) || links(fi) != 1 {
		return false
	}
	for _, root := range s.roots() {
		if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) && rel != "." {
			return true
		}
	}
	return false
}

// project is the directory with the session's transcript, where that is this user's.
func (s AgentSession) project() (string, bool) {
	dir, file := filepath.Split(s.Transcript)
	project := filepath.Clean(dir)
	if !filepath.IsAbs(s.Transcript) || !idForm.MatchString(s.ID) || file != s.ID+".jsonl" ||
		filepath.Base(filepath.Dir(project)) != "projects" {
		return "", false
	}
	fi, err := os.Lstat(s.Transcript)
	return project, err == nil && fi.Mode().IsRegular() && ownedByUs(fi)
}

// roots are the directories of the session, after links, as far as they are safe.
func (s AgentSession) roots() (all []string) {
	project, ok := s.project()
	if !ok {
		return nil
	}
	temp := s.Temp
	temp = cmp.Or(temp, "/tmp")
	for _, place := range []struct {
		from  string
		below []string
	}{
		{project, []string{s.ID, "tool-results"}},
		{project, []string{s.ID, "subagents"}}, // targets of the links that stand for tasks of subagents
		{temp, []string{"claude-" + strconv.Itoa(os.Geteuid()), filepath.Base(project), s.ID, "tasks"}},
	} {
		if root, ok := safe(place.from, place.below); ok {
			all = append(all, root)
		}
	}
	return all
}

// safe goes down from a directory by plain directories of this user that nobody else can write to.
func safe(from string, below []string) (string, bool) {
	root, err := filepath.EvalSymlinks(from)
	if err != nil {
		return "", false
	}
	for _, name := range below {
		root = filepath.Join(root, name)
		fi, err := os.Lstat(root)
		if err != nil || !fi.IsDir() || !ownedByUs(fi) || fi.Mode().Perm()&0o022 != 0 || strings.ContainsRune(name, filepath.Separator) {
			return "", false
		}
	}
	return root, true
}

func ownedByUs(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func links(fi os.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}
