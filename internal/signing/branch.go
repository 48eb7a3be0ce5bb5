package signing

import (
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"palyra/internal/gitobject"
)

// branchName is strict where git is generous.
var branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$`)

// The most that is read of a ref, and of all that are packed.
const (
	maxRef    = 256
	maxPacked = 8 << 20
)

// goesOn returns the branch that a commit goes on, as a program in the room says it and where that is certain: its first
// parent is what the branch of the workspace is, or a commit that was signed for it in this run. "" is no branch.
func (d *desk) goesOn(o gitobject.Object, said string) string {
	if len(said) > 200 || !branchName.MatchString(said) || strings.Contains(said, "..") || strings.HasSuffix(said, ".lock") {
		return ""
	}
	first := ""
	if len(o.Parents) > 0 {
		first = o.Parents[0]
	}
	d.mu.Lock()
	on := d.signed[first]
	d.mu.Unlock()
	if first != "" && on == said {
		return said
	}
	dir := d.call.Plan.Workspace.Repository.Path
	if dir == "" {
		dir = d.call.Plan.Workspace.Path + "/.git"
	}
	if tip, ok := tipOf(dir, said); ok && tip == first {
		return said
	}
	return ""
}

// tipOf reads which commit a branch of a repository is; "" for one that has none yet. False: that cannot be said. It
// follows no link out of the repository.
func tipOf(dir, branch string) (id string, ok bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false
	}
	defer root.Close()
	name := "refs/heads/" + branch
	if text, err := readIn(root, name, maxRef); err == nil {
		id = strings.TrimSpace(text)
		return id, gitobject.IsID(id)
	} else if !os.IsNotExist(err) {
		return "", false
	}
	text, err := readIn(root, "packed-refs", maxPacked)
	if err != nil {
		return "", os.IsNotExist(err)
	}
	for line := range strings.Lines(text) {
		if at, is, two := strings.Cut(strings.TrimSuffix(line, "\n"), " "); two && is == name {
			return at, gitobject.IsID(at)
		}
	}
	return "", true
}

func readIn(root *os.Root, name string, most int64) (string, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not hold us up
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > most {
		return "", os.ErrInvalid
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return string(text), err
}
