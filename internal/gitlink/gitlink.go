// Package gitlink finds the repository of a directory whose .git is a file that says where it is: that of a linked work
// tree, or of a submodule. Whoever can write to the directory can write that file, so it is believed only where the
// repository says the same: by the pointer back that git keeps there (worktrees/NAME/gitdir), or by core.worktree in a
// submodule's configuration.
//
// It runs no git, reads nothing but small files of git's own formats, and follows no link: every path must be its own
// real path, as git writes it. What does not fit is an Error with what to do about it; nothing is guessed.
//
// What it does not do: it does not look into the repository's content, and what it found can change right after. Whoever
// uses it later compares Ino.
package gitlink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"palyra/internal/gitfile"
	"palyra/internal/subpath"
)

// Link is a repository outside of a work tree.
type Link struct {
	Path string // the repository's directory, with what all its work trees share; absolute and real
	Dir  string // where this work tree's own state is, below Path: worktrees/NAME; "": it is Path itself, a submodule's
	Ino  uint64 // the number of the directory Path
}

// Error says why what .git says is not believed.
type Error struct{ Why, Remedy string }

// Error implements error.
func (e *Error) Error() string { return "gitlink: " + e.Why }

func bad(remedy, format string, args ...any) error {
	return &Error{Why: fmt.Sprintf(format, args...), Remedy: remedy}
}

// What can be done about a link that is not believed.
const (
	repair = "run 'git worktree repair' there, outside the sandbox, or make the work tree anew with 'git worktree add'"
	anew   = "make the work tree anew with 'git worktree add', outside the sandbox"
)

const (
	maxPointer = 4 << 10
	worktrees  = "worktrees"
)

// Find returns the repository that the .git of a work tree leads to; found is false where that is a directory, is not
// there, or leads to a repository in the work tree. Both must belong to uid. The work tree is an absolute real path.
func Find(worktree string, uid int64) (link Link, found bool, err error) {
	top, err := os.OpenRoot(worktree)
	if err != nil {
		return Link{}, false, fmt.Errorf("gitlink: %w", err)
	}
	defer func() { _ = top.Close() }()
	fi, err := top.Lstat(gitfile.Own)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Link{}, false, nil
	case err != nil:
		return Link{}, false, fmt.Errorf("gitlink: %w", err)
	case fi.IsDir():
		return Link{}, false, nil
	case fi.Mode()&fs.ModeSymlink != 0:
		if to, err := top.Stat(gitfile.Own); err == nil && to.IsDir() { // it leads on in the work tree
			return Link{}, false, nil
		}
		return Link{}, true, bad("put a file in its place, as 'git worktree repair' writes it",
			".git is a symbolic link that leads out of the directory")
	}
	text, err := line(top, gitfile.Own)
	if err != nil {
		return Link{}, true, bad(repair, ".git cannot be read as a pointer to a repository: %v", err)
	}
	to, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return Link{}, true, bad(repair, ".git is a file and does not say where the repository is")
	}
	dir := absolute(worktree, to)
	if subpath.Within(worktree, dir) {
		return Link{}, false, nil
	}
	link, err = follow(worktree, dir, uid)
	return link, true, err
}

// follow finds the repository by the directory that .git names.
func follow(worktree, dir string, uid int64) (Link, error) {
	own, _, err := open(dir, uid)
	if err != nil {
		return Link{}, err
	}
	defer func() { _ = own.Close() }()
	link := Link{Path: dir}
	to, err := line(own, "commondir")
	switch {
	case err == nil:
		link.Path = absolute(dir, to)
		if filepath.Dir(filepath.Dir(dir)) != link.Path || filepath.Base(filepath.Dir(dir)) != worktrees {
			return Link{}, bad(anew, "%q is not in the list of the work trees of the repository that it names, %q", dir, link.Path)
		}
		link.Dir = worktrees + "/" + filepath.Base(dir)
		back, err := line(own, "gitdir")
		if err != nil || absolute(dir, back) != filepath.Join(worktree, gitfile.Own) {
			return Link{}, bad(repair, "the repository does not know this work tree: %q does not lead back here", filepath.Join(dir, "gitdir"))
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := leadsBack(own, worktree, dir); err != nil {
			return Link{}, err
		}
	default:
		return Link{}, bad(anew, "what the work tree shares cannot be told: %v", err)
	}
	if subpath.Touch(link.Path, worktree) {
		return Link{}, bad(anew, "the repository %q and the directory lie in one another", link.Path)
	}
	return complete(link, uid)
}

// leadsBack finds out whether a submodule's repository is that of the work tree.
func leadsBack(own *os.Root, worktree, dir string) error {
	const remedy = "run 'git submodule absorbgitdirs' or 'git submodule update --init' in the project around it, outside the sandbox"
	text, err := read(own, "config", gitfile.MaxFile)
	if err != nil {
		return bad(remedy, "the configuration of the repository %q cannot be read: %v", dir, err)
	}
	set, err := gitfile.Config(text)
	if err != nil {
		return bad(remedy, "the configuration of the repository %q cannot be read: %v", dir, err)
	}
	at := ""
	for _, s := range set {
		if s.Section == "core" && s.Sub == "" && s.Key == "worktree" {
			at = s.Value
		}
	}
	if at == "" || absolute(dir, at) != worktree {
		return bad(remedy, "the repository %q does not know this work tree: core.worktree does not lead back here", dir)
	}
	return nil
}

// complete makes sure that a repository is whole, one user's, and where its path says.
func complete(link Link, uid int64) (Link, error) {
	common, fi, err := open(link.Path, uid)
	if err != nil {
		return Link{}, err
	}
	defer func() { _ = common.Close() }()
	if link.Ino, err = number(fi); err != nil {
		return Link{}, bad(anew, "%v", err)
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		fi, err := common.Lstat(name)
		if err != nil || fi.IsDir() != (name != "HEAD") || !fi.IsDir() && !fi.Mode().IsRegular() {
			return Link{}, bad(anew, "%q is not a repository: its %s is not there, or is a link", link.Path, name)
		}
		if who, err := owner(fi); err != nil || who != uid {
			return Link{}, foreign(filepath.Join(link.Path, name), uid)
		}
	}
	return link, nil
}

// open opens a directory that is where its path says, and its owner's.
func open(dir string, uid int64) (*os.Root, fs.FileInfo, error) {
	if !utf8.ValidString(dir) || strings.ContainsFunc(dir, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, nil, bad("give the repository's directories names of printable text, and run 'git worktree repair'",
			"the path %q of the repository has bytes that are not printable text", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil, bad(repair, "%q, where .git leads, is not there", dir)
	}
	if real != dir {
		return nil, nil, bad(repair, "a link is on the way to %q, where .git leads", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, bad(repair, "%q, where .git leads, cannot be opened", dir)
	}
	fi, err := root.Stat(".")
	if err == nil {
		var who int64
		if who, err = owner(fi); err == nil && who != uid {
			err = foreign(dir, uid)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	return root, fi, nil
}

func foreign(path string, uid int64) error {
	return bad("have the repository and the work tree belong to one user", "%q does not belong to uid %d, as the work tree does", path, uid)
}

// absolute is a path that a file in dir names.
func absolute(dir, to string) string {
	if filepath.IsAbs(to) {
		return filepath.Clean(to)
	}
	return filepath.Join(dir, to)
}

// line reads a file that has one line.
func line(root *os.Root, name string) (string, error) {
	text, err := read(root, name, maxPointer)
	if err != nil {
		return "", err
	}
	s := strings.TrimRight(string(text), "\r\n")
	if s == "" || strings.ContainsAny(s, "\r\n\x00") {
		return "", errors.New("not one line of text")
	}
	return s, nil
}

// read reads a small regular file.
func read(root *os.Root, name string, most int64) ([]byte, error) {
	fi, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > most {
		return nil, errors.New("not a small file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may have taken its place
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	now, err := f.Stat()
	if err != nil || !os.SameFile(fi, now) {
		return nil, errors.Join(errors.New("it changed meanwhile"), err)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
